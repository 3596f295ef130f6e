// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/test/waits"
)

// streams is a server of streams which never end by themselves, over HTTP/2.
type streams struct {
	*httptest.Server
	// connections is the number of connections that were made, opened the number of streams.
	connections, opened atomic.Int32
}

func newStreams(t *testing.T) *streams {
	t.Helper()
	s := &streams{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		s.opened.Add(1)
		<-r.Context().Done()
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func (s *streams) client(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error)) *kube.Client {
	t.Helper()
	c, err := kube.New(&rest.Config{Host: s.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Dial: dial}, testScheme(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hold keeps a stream open, and opens it again when it has ended, until ctx ends.
func hold(ctx context.Context, c *kube.Client) {
	for ctx.Err() == nil {
		body, err := c.Stream(ctx, &v1alpha1.VPCList{}, "", nil)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, body) // until it ends
		body.Close()
	}
}

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	waits.True(t, time.Minute, what, met)
}

// TestDial_StreamsWaitTogether_OneConnection: a daemon opens many streams when it starts, and
// whenever its connection is lost.
func TestDial_StreamsWaitTogether_OneConnection(t *testing.T) {
	const count, rounds = 50, 3
	s := newStreams(t)
	c := s.client(t, nil)
	ctx, end := context.WithCancel(t.Context())
	var held sync.WaitGroup
	defer held.Wait()
	defer end()
	for range count {
		held.Go(func() { hold(ctx, c) })
	}
	for round := int32(1); round <= rounds; round++ {
		until(t, "all streams are open", func() bool { return s.opened.Load() == round*count })
		if got := s.connections.Load(); got != round {
			t.Fatalf("%d connections, of which %d were lost, want %d", got, round-1, round)
		}
		s.CloseClientConnections()
	}
}

// TestDial_ConnectionFails_NoRequestHeldUp: a request that ends meanwhile holds up no other either.
func TestDial_ConnectionFails_NoRequestHeldUp(t *testing.T) {
	s := newStreams(t)
	var dialled atomic.Int32
	waits := make(chan struct{})
	c := s.client(t, func(ctx context.Context, network, address string) (net.Conn, error) {
		switch dialled.Add(1) {
		case 1:
			<-waits
			return nil, net.ErrClosed
		case 2:
			return nil, net.ErrClosed
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	first := make(chan error, 1)
	go func() {
		_, err := c.Stream(t.Context(), &v1alpha1.VPCList{}, "", nil)
		first <- err
	}()
	until(t, "a request connects", func() bool { return dialled.Load() == 1 })
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := c.Stream(ended, &v1alpha1.VPCList{}, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has ended, and waits for its turn: %v", err)
	}
	close(waits)
	if err := <-first; err == nil {
		t.Error("a request without a connection has an answer")
	}
	if _, err := c.Stream(t.Context(), &v1alpha1.VPCList{}, "", nil); err == nil {
		t.Error("a second request without a connection has an answer")
	}
	body, err := c.Stream(t.Context(), &v1alpha1.VPCList{}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
}

// TestDial_ConnectionNotMade_OthersDialThemselves: it may have begun while the network was
// away.
func TestDial_ConnectionNotMade_OthersDialThemselves(t *testing.T) {
	s := newStreams(t)
	var dialled atomic.Int32
	c := s.client(t, func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialled.Add(1) == 1 {
			<-t.Context().Done() // as long as the test lasts
			return nil, net.ErrClosed
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	for range 2 {
		go func() { _, _ = c.Stream(t.Context(), &v1alpha1.VPCList{}, "", nil) }() // ends with the test
	}
	until(t, "the second request has its stream", func() bool { return s.opened.Load() > 0 })
}
