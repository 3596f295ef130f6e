// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subscriptions keeps the daemon's store equal to the parts of the API that the node
// needs: scopes of the reflector that are added and removed with the VPCs of the node.
package subscriptions

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/client/reflector"
)

// reviewParts is the interval between the daemon's checks for parts of the API that it no longer
// needs to follow, even without a change.
const reviewParts = 30 * time.Second

// Config is the part of the daemon's configuration that selects the followed parts.
type Config struct {
	Node, DefaultVPC string
	// NodePorts reports whether the node serves Services to clients outside.
	NodePorts bool
	// ScaledEndpoints reports that Kinds have these, and no Services.
	ScaledEndpoints bool
	// Kinds have the scopes that are followed.
	Kinds []*descriptor.Kind
	// Passes is asked for a pass when Tables may have changed, after everything was read once;
	// nil: nothing.
	Passes Passes
}

// Passes are the passes of the node. Ask does not block.
type Passes interface{ Ask() uint64 }

// Sources keeps the store equal to the part of the API that this node needs: its pods and
// Addresses; each VPC whose packets it carries, with Subnets and Addresses unless bouncers and
// dividers serve them; the data of Services, and all objects of most other kinds. The data of
// Services are either the verdicts of the operator, or the VPC objects that Services for clients
// outside name, and the Addresses of every network with an attachment here and Services. For most
// other kinds, a watch for each needed object would cost the API server and the node more than
// one watch for all (docs/design/062, 090). Each kind's descriptor has its scopes.
type Sources struct {
	cfg     Config
	api     *kube.Client
	set     *reflector.Set
	store   *store.Store
	records journal.Reader
	log     *slog.Logger

	mu sync.Mutex
	// base are always followed, parts are added and removed.
	base   []*reflector.Source
	parts  map[part]*subscription
	scopes sharedScopes
	// always has the sources that are always followed, by kind, whether something waits for them
	// or not.
	always map[*descriptor.Kind]*reflector.Source
	// complete is true once everything needed had been read.
	complete bool
	// judged is true once the operator has judged all Services, if the node goes by verdicts.
	judged bool
	// changed is sent when a source has synced.
	changed broadcast.Signal

	// looking guards the last result of needed.
	looking  sync.Mutex
	tracker  changeTracker
	last     map[part]bool
	lastRead uint64

	// reads counts how often a part has begun to count as read, or has ceased to. decisive counts
	// only the parts that decide about further parts. Both are guarded by mu.
	reads, decisive uint64
	held            held
}

// New returns sources that follow nothing before Start.
func New(
	cfg Config,
	api *kube.Client,
	set *reflector.Set,
	s *store.Store,
	records journal.Reader,
	log *slog.Logger,
) *Sources {
	return &Sources{
		cfg: cfg, api: api, set: set, store: s, records: records, log: log,
		parts: map[part]*subscription{}, scopes: sharedScopes{}, judged: !cfg.ScaledEndpoints,
	}
}

// Start begins to follow the base, until ctx ends.
func (s *Sources) Start(ctx context.Context) {
	var awaited, others []descriptor.Scope
	for _, kind := range s.cfg.Kinds {
		if kind.OnNode == nil {
			continue
		}
		if scope := kind.OnNode(s.cfg.Node); scope.Unawaited {
			others = append(others, scope)
		} else {
			awaited = append(awaited, scope)
		}
	}
	base := s.subscribe(ctx, awaited)
	sources := slices.Concat(base, s.subscribe(ctx, others))
	always := map[*descriptor.Kind]*reflector.Source{}
	for i, scope := range slices.Concat(awaited, others) {
		always[scope.Kind] = sources[i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base, s.always = base, always
}

// broadcast reports a change that may decide about needed parts.
func (s *Sources) broadcast() { s.report(1, func() {}) }

// report applies a change of the parts that count as read. decisive is 1 if the change decides
// about further parts, otherwise 0. The change and its number are one step. Otherwise a reader
// could see the change, and take the parts that were found before it for all needed parts.
func (s *Sources) report(decisive uint64, change func()) {
	s.mu.Lock() // not between another goroutine's check and its call of Next
	change()
	s.reads++
	s.decisive += decisive
	complete := s.complete
	s.changed.Send()
	s.mu.Unlock()
	if complete && s.cfg.Passes != nil {
		s.cfg.Passes.Ask()
	}
}

// reading returns a number that grows with each read part that decides about needed parts.
func (s *Sources) reading() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decisive
}

// isRead reports whether a part has been read.
func (s *Sources) isRead(p part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.parts[p]
	return f != nil && f.synced()
}

// Run follows the parts that are needed until ctx ends.
func (s *Sources) Run(ctx context.Context) {
	var last map[part]bool
	for ctx.Err() == nil {
		var needed map[part]bool
		review, cancel := context.WithTimeout(ctx, reviewParts)
		// An error means that it is time to look, or to end.
		_ = s.store.Wait(review, func(tx store.ReadTx, ws *store.WatchSet) bool {
			needed = s.needed(tx)
			settled, changed := s.settled(needed)
			ws.Add(changed)
			return s.findJudged(tx) || !settled
		})
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.adjust(ctx, needed)
		if !maps.Equal(last, needed) {
			s.broadcast()
		}
		last = needed
	}
}

// subscribe begins to follow scopes that no part names.
func (s *Sources) subscribe(ctx context.Context, scopes []descriptor.Scope) []*reflector.Source {
	var list []*reflector.Source
	for _, scope := range scopes {
		list = append(list, s.set.Start(ctx, scope, s.broadcast))
	}
	return list
}

// confirm returns once the row of a VPC matches the object in the API, or ctx ends.
func (s *Sources) confirm(ctx context.Context, vpc string, f *subscription) {
	for !s.agrees(ctx, vpc) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(confirmAgain):
		}
	}
	s.report(1, func() { f.confirmed = true })
}

// confirmAgain is the time between two attempts to confirm a VPC. Each attempt waits as
// long for its row.
const confirmAgain = time.Second

// agrees reads a VPC from the API server, and reports whether its row has the same VNI
// within confirmAgain.
func (s *Sources) agrees(ctx context.Context, vpc string) bool {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	object := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: vpc}}
	if err := s.api.Get(ctx, object); err != nil && !apierrors.IsNotFound(err) {
		s.log.Warn("can't read a VPC; trying again", "vpc", vpc, "error", err)
		return false
	}
	soon, cancel := context.WithTimeout(ctx, confirmAgain)
	defer cancel()
	err := s.store.Wait(soon, func(tx store.ReadTx, _ *store.WatchSet) bool {
		row := store.GetVPC(tx, vpc)
		if row == nil {
			return object.UID == ""
		}
		return row.UID == string(object.UID) && row.VNI == uint32(object.Status.VNI)
	})
	return err == nil
}

// VPCs returns the names of the VPCs that this node programs or may program later. The rows of
// VPCs that were added after VPCsRead returned true may be missing.
func (s *Sources) VPCs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for p := range s.parts {
		if p.isCarried() {
			names = append(names, p.domain)
		}
	}
	return names
}

// Synced reports whether everything that this node needs has been read once; the
// channel is closed when that may have changed.
func (s *Sources) Synced() (bool, <-chan struct{}) {
	s.mu.Lock()
	complete, changed := s.complete, s.changed.Next()
	s.mu.Unlock()
	if complete {
		return true, changed
	}
	// The base decides about needed parts: a look before it was read could miss parts.
	if !s.BaseSynced() {
		return false, changed
	}
	all := s.read(everything)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = s.complete || all
	return s.complete, changed
}

// read reports whether the needed parts that are concerned have been read. The read parts decide
// about further parts, so the function looks again.
func (s *Sources) read(concerned func(part) bool) bool {
	look := func() map[part]bool {
		var all map[part]bool
		s.store.View(func(tx store.ReadTx) { all = s.needed(tx) })
		return concernedOf(all, concerned)
	}
	needed := s.known(concerned) // Run finds the other parts, and broadcasts them
	if needed == nil {
		needed = look()
	}
	s.mu.Lock()
	read := s.allRead(needed)
	s.mu.Unlock()
	return read && maps.Equal(needed, look())
}

// known returns the parts found last that are concerned; nil: none were found yet.
func (s *Sources) known(concerned func(part) bool) map[part]bool {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.last == nil {
		return nil
	}
	return concernedOf(s.last, concerned)
}

// everything stands for all parts.
var everything func(part) bool

// concernedOf returns the parts that are concerned. A node may have thousands: all of them
// are not copied.
func concernedOf(parts map[part]bool, concerned func(part) bool) map[part]bool {
	if concerned == nil {
		return parts
	}
	some := map[part]bool{}
	for p := range parts {
		if concerned(p) {
			some[p] = true
		}
	}
	return some
}

// VPCsRead does the same as Synced for replies to roll calls. The replies must include the VNI of
// each VPC that the node may program. So VPCsRead also waits for the rows of VPCs that were added
// later.
func (s *Sources) VPCsRead() (bool, <-chan struct{}) {
	if synced, changed := s.Synced(); !synced {
		return false, changed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, f := range s.parts {
		if p.isCarried() && !f.synced() {
			return false, s.changed.Next()
		}
	}
	return true, s.changed.Next()
}

// DomainSynced reports whether everything of a VPC has been read, by the name of the VPC. For a
// network outside of every VPC, the argument is its domain. Nothing is read of a network without
// Services.
func (s *Sources) DomainSynced(domain string) broadcast.Gate {
	return func() (bool, <-chan struct{}) {
		s.mu.Lock()
		base, changed := s.judged && allSynced(s.base), s.changed.Next()
		s.mu.Unlock()
		if !base || !store.IsNetworkDomain(domain) && !s.isRead(part{domain: domain}) {
			return false, changed
		}
		return s.read(func(p part) bool { return p.domain == domain }), changed
	}
}

// Hosts reports whether the node has a VPC, by its name, whose row has been read and is
// confirmed. It does not wait for the tables of the VPC, which come and go with roles. The
// channel of Synced is closed when the result may have changed.
func (s *Sources) Hosts(vpc string) bool { return s.isRead(part{domain: vpc}) }

// BaseSynced reports whether the node's own pods and Addresses have been read.
func (s *Sources) BaseSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judged && len(s.base) > 0 && allSynced(s.base)
}

// AllSynced returns a gate like Synced for kinds whose objects the node always follows. The gate
// never opens where the API lacks one of the kinds.
func (s *Sources) AllSynced(list []*descriptor.Kind) broadcast.Gate {
	return func() (bool, <-chan struct{}) {
		s.mu.Lock()
		defer s.mu.Unlock()
		unread := func(kind *descriptor.Kind) bool { return s.always[kind] == nil || !s.always[kind].HasSynced() }
		return !slices.ContainsFunc(list, unread), s.changed.Next()
	}
}

func allSynced(list []*reflector.Source) bool {
	return !slices.ContainsFunc(list, func(source *reflector.Source) bool { return !source.HasSynced() })
}
