/*
 * requests_internal.h - what requests.c (this node's requests) and requests_leader.c (the leader's
 * part) share. Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_REQUESTS_INTERNAL_H
#define LEAFD_RAFT_REQUESTS_INTERNAL_H

#include "raft/requests.h"

/* requests.c: a local request is over, with a copy of the reply; or has to be routed again. */
void requests_complete_local(struct requests *requests, struct id_request *request, int status,
                             const void *reply, size_t len);
void requests_back_to_waiting(struct requests *requests, struct id_request *request);

/* enum wire_request_kind of a request of this node. */
uint8_t requests_wire_kind(const struct id_request *request);

/* Something has a deadline: see that somebody looks at it. */
void requests_wait_for_scan(struct requests *requests);

/* requests_leader.c */
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
