// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/cniserver"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/bench/figures"
)

// served is the API at a socket, with a journal on disk.
type served struct {
	*node
	client.Client
}

func serve(t *testing.T, pods int) *served {
	t.Helper()
	n := newNode(t)
	err := n.store.Update(func(tx store.Tx) error {
		for i := range pods {
			name := fmt.Sprintf("p%d", i+1)
			if err := store.PutPod(tx, &store.Pod{Meta: testrows.Meta("uid-" + name), Namespace: "a", Name: name, Node: "node1"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	states, err := endpoints.Open(filepath.Join(dir, "endpoints"), log)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := cniserver.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: rest.New(rest.Config{Service: n.Service, Endpoints: states, Log: log}).Handler(rest.Place{Socket: true, Patience: rest.SocketPatience})}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return &served{node: n, Client: client.Client{Socket: socket}}
}

func asked(i int) wire.IPConfigsRequest {
	who, _ := json.Marshal(map[string]string{"PodName": fmt.Sprintf("p%d", i), "PodNamespace": "a"}) // strings alone
	id := fmt.Sprintf("sandbox%d", i)
	return wire.IPConfigsRequest{InfraContainerID: id, PodInterfaceID: id + "-eth0", Ifname: "eth0", OrchestratorContext: who}
}

// each runs requests of pods 1 to n, so many at a time, and returns how long each took.
func (s *served) each(t *testing.T, n, together int, do func(ctx context.Context, i int) error) []time.Duration {
	t.Helper()
	took := make([]time.Duration, n)
	next := make(chan int)
	var group sync.WaitGroup
	for range together {
		group.Go(func() {
			for i := range next {
				begun := time.Now()
				if err := do(t.Context(), i+1); err != nil {
					t.Errorf("pod %d: %v", i+1, err)
				}
				took[i] = time.Since(begun)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	return took
}

func (s *served) request(ctx context.Context, i int) error {
	entries, err := s.Request(ctx, asked(i))
	if err == nil && len(entries) != 1 {
		err = fmt.Errorf("got %+v", entries)
	}
	return err
}

// endpointsHeld is the number of endpoints of the bars.
const endpointsHeld = 5000

// TestWhatRequestsTake measures, for `make bench` alone, requests of ready pods one at a time
// and 20 at a time, and the memory of 5,000 endpoints.
func TestWhatRequestsTake(t *testing.T) {
	figures.Wanted(t)
	for range 5 {
		s := serve(t, endpointsHeld+1000)
		before := heap()
		begun := time.Now()
		s.each(t, endpointsHeld, 20, s.request)
		rate := endpointsHeld / time.Since(begun).Seconds()
		memory := float64(heap()-before) / (1 << 20)
		one := s.each(t, 500, 1, func(ctx context.Context, i int) error { return s.request(ctx, endpointsHeld+i) })
		slices.Sort(one)
		for what, value := range map[string]float64{
			"requests per second, 20 at a time":    rate,
			"memory of 5,000 endpoints":            memory,
			"a request beside 5,000 endpoints p50": figures.Milliseconds(one[len(one)/2]),
			"a request beside 5,000 endpoints p99": figures.Milliseconds(one[len(one)*99/100]),
		} {
			line := figures.Line{What: what, Path: figures.Alioth, Values: figures.Series{value}}
			if err := line.Print(os.Stdout); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// heap is what is in use, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
