// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package follow keeps the daemon's store equal to the parts of the API that the node
// needs: scopes of the reflector that are added and removed with the VPCs of the node.
package follow

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/broadcast"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/descriptor"
	"github.com/alioth-net/alioth/store/kube"
	"github.com/alioth-net/alioth/store/multinet"
	"github.com/alioth-net/alioth/store/reflector"
	"github.com/alioth-net/alioth/store/services"
)

// reviewParts is how often the daemon checks for parts of the API that it no longer
// needs to follow, even without a change.
const reviewParts = 30 * time.Second

// part of the API that is added and removed: a VPC by its name, or a network outside of
// every VPC by its domain.
type part struct{ domain string }

// String describes what it is, for the log.
func (p part) String() string {
	if p.isNetwork() {
		return "network " + p.domain
	}
	return "VPC " + p.domain
}

func (p part) isNetwork() bool { return store.IsNetworkDomain(p.domain) }

// Config is the part of the daemon's configuration that selects the followed parts.
type Config struct {
	Node, DefaultVPC string
	// Kinds have the scopes that are followed.
	Kinds []*descriptor.Kind
}

// Sources keeps the store equal to the part of the API that this node needs: its pods
// and Addresses, the Addresses of every VPC that has an Address or an attachment here and
// of every network with an attachment here in which there are Services, and all objects of most other kinds. For these, a watch for each needed object would
// cost the API server and the node more than one for all (docs/design/062, 090). Each
// kind's descriptor has its scopes.
type Sources struct {
	cfg     Config
	api     *kube.Client
	set     *reflector.Set
	store   *store.Store
	records func() []journal.Record
	log     *slog.Logger

	mu sync.Mutex
	// base are always followed, parts are added and removed.
	base  []*reflector.Source
	parts map[part]*followed
	// always has what is followed of each kind always, whether something waits for it or not.
	always map[*descriptor.Kind]*reflector.Source
	// complete is true once everything needed had been read.
	complete bool
	// changed is sent when a source has synced.
	changed broadcast.Signal

	// looking guards the last result of needed.
	looking sync.Mutex
	tracker changeTracker
	last    map[part]bool
}

// followed is a part that is followed.
type followed struct {
	sources []*reflector.Source
	// confirmed reports that the VPC's row is not older than the start of following it.
	confirmed bool
	// cancel ends the confirmation.
	cancel context.CancelFunc
}

func (f *followed) synced() bool { return f.confirmed && allSynced(f.sources) }

// New returns sources that follow nothing before Start.
func New(cfg Config, api *kube.Client, set *reflector.Set, s *store.Store, records func() []journal.Record, log *slog.Logger) *Sources {
	return &Sources{
		cfg: cfg, api: api, set: set, store: s, records: records, log: log,
		parts: map[part]*followed{},
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
	base := s.follow(ctx, awaited)
	sources := slices.Concat(base, s.follow(ctx, others))
	always := map[*descriptor.Kind]*reflector.Source{}
	for i, scope := range slices.Concat(awaited, others) {
		always[scope.Kind] = sources[i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base, s.always = base, always
}

// scopesOf returns the scopes of a part, of all kinds.
func (s *Sources) scopesOf(p part) []descriptor.Scope {
	var scopes []descriptor.Scope
	for _, kind := range s.cfg.Kinds {
		switch {
		case p.isNetwork() && kind.OfNetwork != nil:
			scopes = append(scopes, kind.OfNetwork(store.NetworkUID(p.domain)))
		case !p.isNetwork() && kind.OfVPC != nil:
			scopes = append(scopes, kind.OfVPC(p.domain))
		}
	}
	return scopes
}

func (s *Sources) follow(ctx context.Context, scopes []descriptor.Scope) []*reflector.Source {
	var list []*reflector.Source
	for _, scope := range scopes {
		list = append(list, s.set.Start(ctx, scope, s.broadcast))
	}
	return list
}

// broadcast reports that a source has synced.
func (s *Sources) broadcast() {
	s.mu.Lock() // not between another goroutine's check and its call of Next
	defer s.mu.Unlock()
	s.changed.Send()
}

// Run follows the parts that are needed until ctx ends.
func (s *Sources) Run(ctx context.Context) {
	for ctx.Err() == nil {
		var needed map[part]bool
		review, cancel := context.WithTimeout(ctx, reviewParts)
		// An error means that it is time to look, or to end.
		_ = s.store.Wait(review, func(tx store.ReadTx, _ *store.WatchSet) bool {
			needed = s.needed(tx)
			return !s.follows(needed)
		})
		cancel()
		if ctx.Err() == nil {
			s.adjust(ctx, needed)
		}
	}
}

// needed are the VPCs with an Address or attachment on this node that is not of another CNI
// plugin, and the networks with an
// attachment here in which there are Services. The map must not be changed.
func (s *Sources) needed(tx store.ReadTx) map[part]bool {
	s.looking.Lock()
	defer s.looking.Unlock()
	if records := s.records(); s.tracker.stale(tx, records, s.needs) {
		s.last = s.find(tx, records)
	}
	return s.last
}

// needs reports whether a change may affect the result of needed.
func (s *Sources) needs(c store.Change) bool {
	for _, row := range []any{c.Old, c.New} {
		switch row := row.(type) {
		case *store.Address:
			if row.Node == s.cfg.Node {
				return true
			}
		case *multinet.Claim:
			return true
		case *store.EndpointSlice:
			if store.IsNetworkDomain(row.Domain) {
				return true
			}
		}
	}
	return false
}

func (s *Sources) find(tx store.ReadTx, records []journal.Record) map[part]bool {
	parts := map[part]bool{{domain: s.cfg.DefaultVPC}: true}
	for _, rec := range records {
		if rec.Carried() {
			parts[part{domain: rec.VPC}] = true
		}
	}
	for _, row := range store.AddressesByNode(tx, s.cfg.Node) {
		if row.VPC != "" && !row.External {
			parts[part{domain: row.VPC}] = true
		}
	}
	for _, claim := range multinet.ClaimsByNode(tx, s.cfg.Node) {
		if !claim.Released && services.InNetwork(tx, claim.Network) {
			parts[part{domain: claim.Network.Domain()}] = true
		}
	}
	return parts
}

func (s *Sources) follows(parts map[part]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parts) != len(parts) {
		return false
	}
	for p := range parts {
		if s.parts[p] == nil {
			return false
		}
	}
	return true
}

// adjust stops parts that are no longer needed, and begins to follow new ones.
func (s *Sources) adjust(ctx context.Context, needed map[part]bool) {
	s.mu.Lock()
	following := slices.SortedFunc(maps.Keys(s.parts), comparePart)
	s.mu.Unlock()
	for _, p := range following {
		if !needed[p] {
			s.stop(p)
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(needed), comparePart) {
		if slices.Contains(following, p) {
			continue
		}
		s.add(ctx, p)
		s.log.Info("following a part of the API", "part", p.String())
	}
}

// stop waits outside of the lock, because stopping waits for the source.
func (s *Sources) stop(p part) {
	s.mu.Lock()
	stopping := s.parts[p]
	delete(s.parts, p)
	s.mu.Unlock()
	stopping.cancel()
	for _, source := range stopping.sources {
		source.Stop()
	}
	s.log.Info("no longer following a part of the API", "part", p.String())
}

// add begins to follow a part. Before the first complete read the node has not replied
// to a roll call, and its first reply includes the parts that it follows then. A VPC
// that is added later may have been deleted, and its VNI assigned to another VPC, while
// its row is still in the store: so its row has to be confirmed. The UID in the domain of a
// network is never used again.
func (s *Sources) add(ctx context.Context, p part) {
	f := &followed{sources: s.follow(ctx, s.scopesOf(p))}
	ctx, f.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	f.confirmed = !s.complete || p.isNetwork()
	s.parts[p] = f
	confirmed := f.confirmed
	s.mu.Unlock()
	s.broadcast()
	if !confirmed {
		go s.confirm(ctx, p.domain, f)
	}
}

// confirm returns once the row of a VPC matches the object in the API, or ctx ends.
func (s *Sources) confirm(ctx context.Context, vpc string, f *followed) {
	for !s.agrees(ctx, vpc) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(confirmAgain):
		}
	}
	s.mu.Lock()
	f.confirmed = true
	s.mu.Unlock()
	s.broadcast()
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

// VPCs are the names of the VPCs that this node programs or may program later.
func (s *Sources) VPCs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for p := range s.parts {
		if !p.isNetwork() {
			names = append(names, p.domain)
		}
	}
	return names
}

func comparePart(a, b part) int { return strings.Compare(a.String(), b.String()) }

// Synced reports whether everything that this node needs has been read once; the
// channel is closed when that may have changed.
func (s *Sources) Synced() (bool, <-chan struct{}) {
	s.mu.Lock()
	complete, changed := s.complete, s.changed.Next()
	s.mu.Unlock()
	if complete {
		return true, changed
	}
	var needed map[part]bool
	s.store.View(func(tx store.ReadTx) { needed = s.needed(tx) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = s.complete || len(s.base) > 0 && allSynced(s.base) && s.followed(needed)
	return s.complete, s.changed.Next()
}

// followed reports whether all of these parts have been read; called with mu held.
func (s *Sources) followed(needed map[part]bool) bool {
	for p := range needed {
		if f := s.parts[p]; f == nil || !f.synced() {
			return false
		}
	}
	return true
}

// DomainSynced reports whether everything of a VPC has been read, by its name, or of a
// network outside of every VPC, by its domain. Nothing is read of a network without
// Services.
func (s *Sources) DomainSynced(domain string) (bool, <-chan struct{}) {
	p, served := part{domain: domain}, true
	if p.isNetwork() {
		s.store.View(func(tx store.ReadTx) { served = s.needed(tx)[p] })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.parts[p]
	return (!served || f != nil && f.synced()) && allSynced(s.base), s.changed.Next()
}

// BaseSynced reports whether the node's own pods and Addresses have been read.
func (s *Sources) BaseSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.base) > 0 && allSynced(s.base)
}

// AllSynced returns a function like Synced for some kinds of which the node always follows
// objects, such as those for which nothing else waits. They are never read where the API
// lacks one of the kinds.
func (s *Sources) AllSynced(list []*descriptor.Kind) func() (bool, <-chan struct{}) {
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
