/*
 * requests_internal.h - what requests.c (this node's requests), requests_way.c (their way to the
 * leader), requests_relay.c (those of others that are passed on) and requests_leader.c (the
 * leader's part) share. Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_REQUESTS_INTERNAL_H
#define LEAFD_RAFT_CLUSTER_REQUESTS_INTERNAL_H

#include "raft/cluster/requests.h"
#include "raft/wire/wire.h"

/* In the number of a request that is passed on for another node: so no reply to one can be taken
 * for that to an own one. */
#define REQUESTS_RELAYED_ID (1ULL << 63)

/* requests.c: a local request is over, with a copy of the reply; or has to be routed again. */
void requests_complete_local(struct requests *requests, struct id_request *request, int status,
                             const void *reply, size_t len);
void requests_back_to_waiting(struct requests *requests, struct id_request *request);

/* enum wire_request_kind of a request of this node. */
uint8_t requests_wire_kind(const struct id_request *request);

/* Something has a deadline: see that somebody looks at it. */
void requests_wait_for_scan(struct requests *requests);

/* Whatever was sent another way than the present one has to be routed again. */
void requests_recall(struct requests *requests);

/* requests_way.c: look for a way if it is time; where requests go now, 0: nowhere; an answer of
 * this status came from there. */
void requests_way_turn(struct requests *requests);
uint64_t requests_way_next_ms(const struct requests *requests);
uint64_t requests_way_target(const struct requests *requests);
void requests_way_word(struct requests *requests, uint64_t from, int status);
void requests_way_role_changed(struct requests *requests);
bool requests_receive_probe(struct requests *requests, uint64_t from, const uint8_t *payload,
                            size_t len);

/* requests_relay.c */
bool requests_receive_relay(struct requests *requests, uint64_t from, const uint8_t *payload,
                            size_t len);
/* The answer to what was passed on; reply->id is changed. */
void requests_relay_reply(struct requests *requests, uint64_t from, struct wire_reply *reply);
void requests_relay_role_changed(struct requests *requests);
void requests_relay_link_down(struct requests *requests, uint64_t peer);
void requests_relay_expire(struct requests *requests, uint64_t now);

/* requests_leader.c */
void requests_send_reply(struct requests *requests, uint64_t to, const struct wire_reply *reply);
void requests_refuse(struct requests *requests, uint64_t to, uint64_t id, int status);

/* Take what a peer has sent, if this node leads. */
void requests_serve(struct requests *requests, uint64_t from, const struct wire_request *wire);
void requests_take_local(struct requests *requests, struct id_request *request);
bool requests_receive_request(struct requests *requests, uint64_t from, const uint8_t *payload,
                              size_t len);
bool requests_receive_confirm(struct requests *requests, uint64_t from, const uint8_t *payload,
                              size_t len);
bool requests_receive_ack(struct requests *requests, uint64_t from, const uint8_t *payload,
                          size_t len);

/* Leadership or term changed, or the node stops: all work goes back to where it came from. */
void requests_leader_changed(struct requests *requests);

/* Local requests in work whose deadline passed are answered; remote ones are forgotten. */
void requests_expire_work(struct requests *requests, uint64_t now, int status);

/* Append, confirm, answer. */
void requests_leader_turn(struct requests *requests);

#endif
