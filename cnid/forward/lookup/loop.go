// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lookup asks the API server for single Addresses that packets of this node need,
// and keeps the rows of the answers in the datapath (docs/design/143). Package cache
// decides, this one reads, asks and writes.
package lookup

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// Table is the datapath's table of cached rows. Nobody else writes it, but programs mark
// rows, and write when they use one.
type Table interface {
	Rows() ([]state.Cached, error)
	// Put adds a row, or replaces the one of its VNI and IP.
	Put(row state.Cached) error
	// Delete deletes a row. A missing row is not an error.
	Delete(vni uint32, ip netip.Addr) error
}

// Misses reads the addresses of packets that found no row.
type Misses interface {
	// Read waits for the next one. It returns os.ErrClosed once the datapath is closed.
	Read() (state.Miss, error)
	Close() error
}

// Datapath holds the table and the misses of an open datapath.
type Datapath struct {
	Table  Table
	Misses Misses
}

// Close ends the reading of misses.
func (d Datapath) Close() error { return d.Misses.Close() }

// Resolver asks for an Address. Its method is called from several goroutines, and returns
// soon after ctx ends.
type Resolver interface {
	Resolve(ctx context.Context, q cache.Question) cache.Answer
}

// Config is the configuration of a Loop. All fields are required.
type Config struct {
	// Node is the name of this node.
	Node     string
	Store    *store.Store
	Resolver Resolver
	// Opened delivers each datapath that is opened, in place of the one before.
	Opened  <-chan Datapath
	Sources Sources
	// Now returns the time since the boot on the clock of the programs' times in rows
	// (CLOCK_MONOTONIC).
	Now     func() time.Duration
	Metrics *Metrics
	Log     *slog.Logger
}

// Sources report which objects have been read of the API.
type Sources interface {
	cache.Sources
	// Synced reports whether the nodes, and the VPCs of this node, have been read. The channel
	// is closed when that, or the result of Hosts, may have changed.
	Synced() (bool, <-chan struct{})
}

const (
	// slowAfter is how long a question may take.
	slowAfter = 2 * time.Second
	// atOnce is the number of questions that the cache asks at once at most.
	atOnce = 16
	// retry is the wait after a table or ring has failed.
	retry = time.Second
)

// Loop keeps the cached rows of a node.
type Loop struct {
	cfg     Config
	answers chan cache.Answer
	misses  chan state.Miss
	// asking are the goroutines of questions, and the one that waits for changes.
	asking sync.WaitGroup
	// table is the table of the datapath that was opened last; for Run alone.
	table Table

	// mu is held while an event becomes steps, and until these are taken.
	mu      sync.Mutex
	cache   *cache.Cache
	adopted bool
	changed broadcast.Signal
}

// New returns a Loop that has read nothing.
func New(cfg Config) *Loop {
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	return &Loop{
		cfg:     cfg,
		cache:   cache.New(cfg.Node, random),
		answers: make(chan cache.Answer, atOnce),
		misses:  make(chan state.Miss),
	}
}

// Adopted reports whether the rows that an earlier daemon has left are known; the channel
// is closed when they are. A reply to a roll call has to wait for that.
func (l *Loop) Adopted() (bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.adopted, l.changed.Next()
}

// VNIs returns the VNIs from others and the VNIs of cached rows, ascending. A VPC that has
// left the node keeps its VNI here until its last row is deleted.
//
// VNIs calls others first. others reports the VNI of each VPC that Sources.Hosts reports. A row is
// put only while Sources.Hosts reports its VPC, and its VNI is known here before the row is put. So
// a VNI that others no longer reports either has a row that is known by now, or gets no row.
func (l *Loop) VNIs(others func() []uint32) []uint32 {
	all := map[uint32]bool{}
	for _, vni := range others() {
		all[vni] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, vni := range l.cache.VNIs() {
		all[vni] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// Run keeps the rows until ctx ends. The rows stay.
func (l *Loop) Run(ctx context.Context) {
	defer l.asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !broadcast.Gate(l.cfg.Sources.Synced).Wait(ctx) || !l.adopt(ctx) {
		return
	}
	changes := make(chan struct{})
	l.asking.Go(func() { l.watch(ctx, changes) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case path := <-l.cfg.Opened:
			l.use(ctx, path)
		case miss := <-l.misses:
			l.do(ctx, func(v cache.View) cache.Steps { return l.cache.Missed(v, miss) })
		case answer := <-l.answers:
			l.cfg.Metrics.lookups.WithLabelValues(string(answer.Result)).Inc()
			l.do(ctx, func(v cache.View) cache.Steps { return l.cache.Answered(v, answer) })
		case <-changes:
			l.do(ctx, l.cache.Changed)
		case <-timer.C:
			l.do(ctx, l.due)
		}
		l.rest(timer)
	}
}

// adopt takes the rows of an earlier daemon, once a datapath is open.
func (l *Loop) adopt(ctx context.Context) bool {
	for again := (<-chan time.Time)(nil); ; again = time.After(retry) {
		select {
		case path := <-l.cfg.Opened:
			l.use(ctx, path)
		case <-again:
		case <-ctx.Done():
			return false
		}
		rows, err := l.table.Rows()
		if err != nil {
			l.cfg.Log.Warn("can't read the cached rows; trying again", "error", err, "after", retry)
			continue
		}
		l.do(ctx, func(v cache.View) cache.Steps { return l.cache.Adopt(v, rows) })
		l.mu.Lock()
		defer l.mu.Unlock()
		l.adopted = true
		l.changed.Send()
		return true
	}
}

// use takes a datapath in place of the one before, whose reader ends.
func (l *Loop) use(ctx context.Context, path Datapath) {
	l.table = path.Table
	go l.read(ctx, path.Misses) // Run does not wait for it: it ends with the datapath
}

// read passes misses on until the datapath is closed.
func (l *Loop) read(ctx context.Context, from Misses) {
	for ctx.Err() == nil {
		miss, err := from.Read()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			l.cfg.Log.Warn("can't read an address that a packet misses", "error", err)
			select {
			case <-time.After(retry):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case l.misses <- miss:
		case <-ctx.Done():
		}
	}
}

// watch sends after each change of the store, and of what the node has of it.
func (l *Loop) watch(ctx context.Context, changes chan<- struct{}) {
	for ctx.Err() == nil {
		looked := false
		// An error means that ctx has ended.
		_ = l.cfg.Store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
			if looked {
				return true
			}
			looked = true
			_ = tx.Revision() // wakes with the next one
			_, changed := l.cfg.Sources.Synced()
			ws.Add(changed)
			select {
			case changes <- struct{}{}: // whatever changed before is seen by now
			case <-ctx.Done():
			}
			return false
		})
	}
}

// do has the cache meet an event, and takes the steps.
func (l *Loop) do(ctx context.Context, event func(cache.View) cache.Steps) {
	l.mu.Lock()
	defer l.mu.Unlock()
	view := cache.View{Now: l.cfg.Now(), Sources: l.cfg.Sources}
	l.cfg.Store.View(func(tx store.ReadTx) { view.Tx = tx })
	l.take(ctx, event(view))
	l.cfg.Metrics.rows.Set(float64(l.cache.Len()))
}

// due is the event that something is due.
func (l *Loop) due(v cache.View) cache.Steps {
	if !l.cache.ScanDue(v.Now) {
		return l.cache.Tick(v)
	}
	rows, err := l.table.Rows()
	if err != nil {
		l.cfg.Log.Warn("can't read the cached rows", "error", err)
		return l.cache.Unscanned(v)
	}
	return l.cache.Scanned(v, rows)
}

// take takes steps. The cache repeats those on the table that fail.
func (l *Loop) take(ctx context.Context, steps cache.Steps) {
	var failed []error
	for _, row := range steps.Put {
		if err := l.table.Put(row); err != nil {
			failed = append(failed, err)
		}
	}
	for _, key := range steps.Delete {
		if err := l.table.Delete(key.VNI, key.IP); err != nil {
			failed = append(failed, err)
			continue
		}
		l.cache.Deleted(key)
	}
	if len(failed) > 0 {
		l.cfg.Log.Warn("can't write cached rows; trying again", "rows", len(failed), "error", failed[0])
	}
	for _, question := range steps.Ask {
		l.asking.Go(func() { l.ask(ctx, question) })
	}
	l.cfg.Metrics.lookups.WithLabelValues(overBudget).Add(float64(steps.OverBudget))
	for _, cause := range steps.Ended {
		l.cfg.Metrics.deleted.WithLabelValues(string(cause)).Inc()
	}
}

// ask asks a question. There is room for the answers of all that are asked at once.
func (l *Loop) ask(ctx context.Context, question cache.Question) {
	ctx, cancel := context.WithTimeout(ctx, slowAfter)
	defer cancel()
	l.answers <- l.cfg.Resolver.Resolve(ctx, question)
}

// rest sets the timer to when something is due.
func (l *Loop) rest(timer *time.Timer) {
	timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.cache.Next(); ok {
		timer.Reset(at - l.cfg.Now())
	}
}
