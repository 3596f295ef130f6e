// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// wire is a way to the API server that can be cut.
type wire struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

func newWire(t *testing.T, config *rest.Config) *wire {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, target: target.Host, conns: map[net.Conn]struct{}{}}
	go w.accept(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		w.set(true)
		listener.Close()
	})
	config.Host = "https://" + listener.Addr().String()
	return w
}

func (w *wire) accept(ctx context.Context) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.carry(ctx, conn)
	}
}

func (w *wire) carry(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.target)
	if err != nil {
		return
	}
	defer far.Close()
	if !w.add(conn, far) {
		return
	}
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // how a connection ends is no matter here
		done <- struct{}{}
	}
	go pass(conn, far)
	go pass(far, conn)
	<-done
}

// add remembers connections; it is false where they must not be.
func (w *wire) add(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		w.conns[conn] = struct{}{}
	}
	return !w.cut
}

// set cuts all connections and allows no more, or allows them again.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for conn := range w.conns {
			conn.Close()
		}
		clear(w.conns)
	}
}

func TestAnOutageOfTheAPIServerEndsATermAndNotTheProcess(t *testing.T) {
	r := newRig(t)
	r.create(newNamespace("outage-lease", ""))
	far := *r
	far.config = rest.CopyConfig(r.config)
	w := newWire(t, far.config)
	cfg := electing("outage-lease")
	cfg.MetricsAddr = freeAddr(t)
	far.operate(cfg)
	r.network("outage")
	first := r.schedule(newPod("outage", "first", "n", ""), "node-1")
	sees(r, first, told(v1alpha1.AttachedReason))

	w.set(true)
	second := r.schedule(newPod("outage", "second", "n", ""), "node-1")
	r.eventually(func() error { return atLeast(t, cfg.MetricsAddr, 2) })
	w.set(false)
	sees(r, second, told(v1alpha1.AttachedReason))
	if a, b := r.held(string(first.UID)), r.held(string(second.UID)); len(a) != 2 || len(b) != 2 {
		t.Errorf("the pods hold %d and %d addresses, want 2 each", len(a), len(b))
	}
}

// atLeast reads how often the operator stood up.
func atLeast(t *testing.T, addr string, terms int) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	match := regexp.MustCompile(`(?m)^alioth_operator_terms_total (\d+)$`).FindSubmatch(body)
	if match == nil {
		return fmt.Errorf("no terms among %d bytes of metrics", len(body))
	}
	if count, err := strconv.Atoi(string(match[1])); err != nil || count < terms {
		return fmt.Errorf("stood up %s times, want %d", match[1], terms)
	}
	return nil
}
