// resp_redigo.go - takes ids by redigo: INCR, INCRBY, a pipeline; prints what test_resp_clients.py
// compares. Arguments: port, tag.
package main

import (
	"fmt"
	"os"

	"github.com/gomodule/redigo/redis"
)

func main() {
	tag := os.Args[2]
	conn, err := redis.Dial("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	one, err := redis.Int64(conn.Do("INCR", tag))
	fmt.Println("incr", one, err)
	last, err := redis.Int64(conn.Do("INCRBY", tag, 10))
	fmt.Println("incrby", last, err)
	for i := 0; i < 100; i++ {
		_ = conn.Send("INCR", tag)
	}
	_ = conn.Flush()
	for i := 0; i < 100; i++ {
		last, err = redis.Int64(conn.Receive())
	}
	fmt.Println("pipeline", last, err)
	_, err = conn.Do("SET", tag, 1)
	fmt.Println("error", err)
}
