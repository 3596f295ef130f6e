// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

var ip = netip.MustParseAddr

// self is the node of the loop, other the node of the rows.
const self, other = "node0", "node1"

// memory is a table of cached rows in memory, which can fail.
type memory struct {
	mu   sync.Mutex
	rows map[cache.Key]state.Cached
	err  error
	// reads counts calls of Rows.
	reads int
}

func newMemory(rows ...state.Cached) *memory {
	m := &memory{rows: map[cache.Key]state.Cached{}}
	for _, row := range rows {
		m.rows[cache.Key{VNI: row.VNI, IP: row.IP}] = row
	}
	return m
}

func (m *memory) Rows() ([]state.Cached, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	var list []state.Cached
	for _, row := range m.rows {
		list = append(list, row)
	}
	return list, m.err
}

func (m *memory) Put(row state.Cached) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.rows[cache.Key{VNI: row.VNI, IP: row.IP}] = row
	}
	return m.err
}

func (m *memory) Delete(vni uint32, addr netip.Addr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		delete(m.rows, cache.Key{VNI: vni, IP: addr})
	}
	return m.err
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// of returns the row of an address of the VNI 7, and whether packets use it.
func (m *memory) of(addr netip.Addr) (state.Cached, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[cache.Key{VNI: 7, IP: addr}]
	return row, ok && !row.Gone
}

// has reports whether there is any row of a VNI.
func (m *memory) has(vni uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.rows {
		if key.VNI == vni {
			return true
		}
	}
	return false
}

// reports are misses that a test makes.
type reports struct {
	misses chan state.Miss
	errs   chan error
	closed chan struct{}
}

func newReports() *reports {
	return &reports{misses: make(chan state.Miss), errs: make(chan error), closed: make(chan struct{})}
}

func (r *reports) Read() (state.Miss, error) {
	select {
	case miss := <-r.misses:
		return miss, nil
	case err := <-r.errs:
		return state.Miss{}, err
	case <-r.closed:
		return state.Miss{}, fmt.Errorf("read: %w", os.ErrClosed)
	}
}

func (r *reports) Close() error {
	close(r.closed)
	return nil
}

// world is a loop with what it needs.
type world struct {
	*Loop
	store   *store.Store
	table   *memory
	reports *reports
	opened  chan Datapath
	ended   chan struct{}

	mu     sync.Mutex
	synced bool
	hosted map[string]bool
	change broadcast.Signal
}

// newWorld starts a loop that has not synced; it ends with the test.
func newWorld(t *testing.T, resolver Resolver, now func() time.Duration, rows ...state.Cached) *world {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: s, table: newMemory(rows...), reports: newReports(), opened: make(chan Datapath), ended: make(chan struct{}), hosted: map[string]bool{}}
	for i, name := range []string{self, other} {
		w.node(t, name, byte(i+1), true)
	}
	w.Loop = New(Config{
		Node: self, Store: s, Resolver: resolver, Opened: w.opened, Sources: w, Now: now,
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(w.ended); w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-w.ended
		close(w.reports.closed)
	})
	return w
}

func (w *world) Synced() (bool, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.synced, w.change.Next()
}

func (w *world) Hosts(vpc string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosted[vpc]
}

// sync makes everything count as read.
func (w *world) sync() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	w.change.Send()
}

// open opens the datapath.
func (w *world) open() { w.opened <- Datapath{Table: w.table, Misses: w.reports} }

// host has a VPC come to the node, or leave it.
func (w *world) host(vpc string, hosted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosted[vpc] = hosted
	w.change.Send()
}

// hosts are the VNIs of the VPCs of the node, as passes report them.
func (w *world) hosts() (vnis []uint32) {
	w.store.View(func(tx store.ReadTx) {
		for _, vpc := range store.ListVPCs(tx) {
			if w.Hosts(vpc.Name) {
				vnis = append(vnis, vpc.VNI)
			}
		}
	})
	return vnis
}

func (w *world) update(t *testing.T, do func(tx store.Tx) error) {
	t.Helper()
	if err := w.store.Update(do); err != nil {
		t.Fatal(err)
	}
}

func (w *world) node(t *testing.T, name string, last byte, ready bool) {
	t.Helper()
	w.update(t, func(tx store.Tx) error {
		return store.PutNode(
			tx,
			&store.Node{Meta: store.Meta{UID: name}, Name: name, Ready: ready, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, last})}},
		)
	})
}

// vpc makes a VPC, in place of the one of its name.
func (w *world) vpc(t *testing.T, name, uid string, vni uint32) {
	t.Helper()
	w.update(t, func(tx store.Tx) error {
		if old := store.GetVPC(tx, name); old != nil {
			store.DeleteVPC(tx, name, old.UID)
		}
		return store.PutVPC(
			tx,
			&store.VPC{
				Meta:     store.Meta{UID: uid},
				Name:     name,
				VNI:      vni,
				Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")},
			},
		)
	})
}

// ready is a world that is synced, with the VPC blue of the VNI 7.
func ready(t *testing.T, resolver Resolver, now func() time.Duration, rows ...state.Cached) *world {
	t.Helper()
	w := newWorld(t, resolver, now, rows...)
	w.vpc(t, "blue", "blue-1", 7)
	w.host("blue", true)
	w.sync()
	w.open()
	return w
}

func (w *world) miss(addr netip.Addr) { w.reports.misses <- state.Miss{VNI: 7, IP: addr, Ifindex: 5} }

// count is the value of a counter of results.
func (w *world) count(result string) int {
	return int(testutil.ToFloat64(w.cfg.Metrics.lookups.WithLabelValues(result)))
}

func (w *world) endedBy(cause cache.Cause) int {
	return int(testutil.ToFloat64(w.cfg.Metrics.deleted.WithLabelValues(string(cause))))
}

// errBroken is the error of a table or ring that fails.
var errBroken = errors.New("broken")
