// rolling.go - asks nodes for ids over net/http's keep-alive connections while they are restarted
// one after the other: see test_rolling_restart.py for what is printed.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

var mutex sync.Mutex
var asked int

func ask(client *http.Client, url string) (bool, error) {
	reply, err := client.Get(url)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED), err
	}
	defer reply.Body.Close()
	if _, err = io.Copy(io.Discard, reply.Body); err == nil && reply.StatusCode != 200 {
		err = fmt.Errorf("status %d", reply.StatusCode)
	}
	return false, err
}

func run(client *http.Client, urls []string, first int, stop <-chan struct{}) {
	at := first
	for turn := 0; ; turn++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(turn%5) * 3 * time.Millisecond):
		}
		refused, err := ask(client, urls[at%len(urls)])
		mutex.Lock()
		asked++
		if err != nil && !refused {
			fmt.Printf("cut: %v\n", err)
		}
		mutex.Unlock()
		if err != nil {
			at++
		}
	}
}

func main() {
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	client := &http.Client{Transport: transport, Timeout: 15 * time.Second}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range os.Args[1:] {
		for j := 0; j < 2; j++ {
			group.Add(1)
			go func(first int) {
				defer group.Done()
				run(client, os.Args[1:], first, stop)
			}(i)
		}
	}
	fmt.Println("started")
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(stop)
	group.Wait()
	fmt.Printf("asked: %d\n", asked)
}
