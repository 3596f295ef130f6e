// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// wire is a way to the API server that can be cut, and whose connections can hang.
type wire struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
	// hung is of the connections that are made at present.
	hung *atomic.Bool
}

// end is one end of a connection. Once the connection hangs, all data written to it is lost.
type end struct {
	net.Conn
	hung *atomic.Bool
}

func (e end) Write(b []byte) (int, error) {
	if e.hung.Load() {
		return len(b), nil
	}
	return e.Conn.Write(b)
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
	w := &wire{listener: listener, target: target.Host, conns: map[net.Conn]struct{}{}, hung: &atomic.Bool{}}
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
	hung, ok := w.add(conn, far)
	if !ok {
		return
	}
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // the end of a connection has no effect here
		done <- struct{}{}
	}
	go pass(end{conn, hung}, far)
	go pass(end{far, hung}, conn)
	<-done
}

// add remembers connections, and returns the flag that they hang. It returns false where
// connections must not be.
func (w *wire) add(conns ...net.Conn) (*atomic.Bool, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		w.conns[conn] = struct{}{}
	}
	return w.hung, !w.cut
}

// hang makes all connections lose the data sent. They stay open, and later connections work as
// usual.
func (w *wire) hang() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hung.Store(true)
	w.hung = &atomic.Bool{}
}

// set cuts all connections and refuses new ones, or allows them again.
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

func TestOutage_APIServer_TermEndsProcessStays(t *testing.T) {
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
	sees(r, first, hasReason(v1alpha1.AttachedReason))

	w.set(true)
	second := r.schedule(newPod("outage", "second", "n", ""), "node-1")
	r.eventually(func() error { return atLeast(t, cfg.MetricsAddr, 2) })
	w.set(false)
	sees(r, second, hasReason(v1alpha1.AttachedReason))
	if a, b := r.held(string(first.UID)), r.held(string(second.UID)); len(a) != 2 || len(b) != 2 {
		t.Errorf("the pods hold %d and %d addresses, want 2 each", len(a), len(b))
	}
}

// TestLease_ConnectionHangs_Kept: the path to one of several API servers may end without a word.
func TestLease_ConnectionHangs_Kept(t *testing.T) {
	r := newRig(t)
	r.create(newNamespace("hung-lease", ""))
	through := *r
	through.config = rest.CopyConfig(r.config)
	w := newWire(t, through.config)
	cfg := electing("hung-lease")
	cfg.MetricsAddr = freeAddr(t)
	cfg.LeaseDuration = 12 * time.Second // a busy machine must not fail the test
	through.operate(cfg)
	leases := r.leases()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "hung-lease", Name: leaseName}}
	r.leader(leases, lease, func(holder string) bool { return holder != "" })

	w.hang()
	hung := time.Now()
	r.eventually(func() error {
		err := leases.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)
		if err == nil && !lease.Spec.RenewTime.After(hung) {
			err = errors.New("the lease is not renewed")
		}
		return err
	})
	if terms, err := standUps(t, cfg.MetricsAddr); err != nil || terms != 1 {
		t.Errorf("the operator stood up %d times, error %v", terms, err)
	}
}

// TestReplica_WatchHangs_TakesOver: it takes the last state that it saw for the state of the
// lease.
func TestReplica_WatchHangs_TakesOver(t *testing.T) {
	r := newRig(t)
	r.create(newNamespace("hung-watch", ""))
	stop := r.operate(electing("hung-watch"))
	leases := r.leases()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "hung-watch", Name: leaseName}}
	var first string
	r.leader(leases, lease, func(holder string) bool { first = holder; return holder != "" })

	through := *r
	through.config = rest.CopyConfig(r.config)
	w := newWire(t, through.config)
	cfg := electing("hung-watch")
	cfg.HealthAddr = freeAddr(t)
	through.operate(cfg)
	r.eventually(func() error { return isReady(t, cfg.HealthAddr) })
	w.hang()
	stop()
	r.leader(leases, lease, func(holder string) bool { return holder != "" && holder != first })
}

// TestOutage_ReplicaStandsBy_TermEnds: etcd may be restored in an outage, and a replica that stands by
// must not lead with a picture of before.
func TestOutage_ReplicaStandsBy_TermEnds(t *testing.T) {
	r := newRig(t)
	r.create(newNamespace("standby-lease", ""))
	r.operate(electing("standby-lease"))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "standby-lease", Name: leaseName}}
	r.leader(r.leases(), lease, func(holder string) bool { return holder != "" })

	far := *r
	far.config = rest.CopyConfig(r.config)
	w := newWire(t, far.config)
	cfg := electing("standby-lease")
	cfg.HealthAddr, cfg.MetricsAddr = freeAddr(t), freeAddr(t)
	far.operate(cfg)
	r.eventually(func() error { return isReady(t, cfg.HealthAddr) })
	w.set(true)
	r.eventually(func() error { return atLeast(t, cfg.MetricsAddr, 2) })
	w.set(false)
	r.eventually(func() error { return isReady(t, cfg.HealthAddr) })
}

// isReady returns an error unless the operator is ready.
func isReady(t *testing.T, addr string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}

// atLeast compares how often the operator stood up.
func atLeast(t *testing.T, addr string, terms int) error {
	t.Helper()
	count, err := standUps(t, addr)
	if err == nil && count < terms {
		err = fmt.Errorf("stood up %d times, want %d", count, terms)
	}
	return err
}

// standUps reads how often the operator stood up.
func standUps(t *testing.T, addr string) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	match := regexp.MustCompile(`(?m)^alioth_operator_terms_total (\d+)$`).FindSubmatch(body)
	if match == nil {
		return 0, fmt.Errorf("no terms among %d bytes of metrics", len(body))
	}
	return strconv.Atoi(string(match[1]))
}
