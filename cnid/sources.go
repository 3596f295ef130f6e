// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/reflector"
)

// reviewVPCs is how often the daemon looks for VPCs that it no longer needs to
// follow, whatever happened.
const reviewVPCs = 30 * time.Second

// sources keeps the store like the part of the API that this node needs: its
// pods and Addresses, all Nodes, the shared Services, and every VPC that has an
// Address or an attachment here.
type sources struct {
	cfg     plan.Config
	set     *reflector.Set
	store   *store.Store
	journal *journal.Journal
	log     *slog.Logger

	mu sync.Mutex
	// base are followed always, vpcs come and go.
	base []*reflector.Source
	vpcs map[string][]*reflector.Source
	// complete is true once everything needed had been read.
	complete bool
	// changed is closed, and replaced, when a source has synced.
	changed chan struct{}
}

func newSources(cfg plan.Config, set *reflector.Set, s *store.Store, j *journal.Journal, log *slog.Logger) *sources {
	return &sources{
		cfg: cfg, set: set, store: s, journal: j, log: log,
		vpcs: map[string][]*reflector.Source{}, changed: make(chan struct{}),
	}
}

// start begins to follow what is needed always, until ctx ends.
func (s *sources) start(ctx context.Context) error {
	scopes := []reflector.Scope{reflector.PodsOnNode(s.cfg.Node), reflector.AddressesOnNode(s.cfg.Node), reflector.Nodes()}
	services := slices.Concat(s.cfg.SharedServices, []plan.ServiceRef{s.cfg.APIServer})
	for i, ref := range services {
		if !slices.Contains(services[:i], ref) {
			scopes = append(scopes, reflector.ServiceNamed(ref.Namespace, ref.Name), reflector.EndpointSlicesOf(ref.Namespace, ref.Name))
		}
	}
	base, err := s.follow(ctx, scopes)
	if err != nil {
		return err
	}
	// Nothing on the node waits for the operator's calls.
	if _, err := s.follow(ctx, []reflector.Scope{reflector.RollCallNamed(v1alpha1.OperatorRollCall)}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = base
	return nil
}

func (s *sources) follow(ctx context.Context, scopes []reflector.Scope) ([]*reflector.Source, error) {
	var list []*reflector.Source
	for _, scope := range scopes {
		source, err := s.set.Start(ctx, scope)
		if err != nil {
			return nil, fmt.Errorf("follow %T: %w", scope.Object, err)
		}
		list = append(list, source)
		go s.announce(source)
	}
	return list, nil
}

// announce tells when a source has synced, and returns then or when the source
// has ended.
func (s *sources) announce(source *reflector.Source) {
	select {
	case <-source.Synced():
		s.broadcast()
	case <-source.Done():
	}
}

func (s *sources) broadcast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// run follows the VPCs that are needed until ctx ends.
func (s *sources) run(ctx context.Context) {
	for ctx.Err() == nil {
		var needed map[string]bool
		review, cancel := context.WithTimeout(ctx, reviewVPCs)
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

// needed are the VPCs that this node has something of.
func (s *sources) needed(tx store.ReadTx) map[string]bool {
	names := map[string]bool{s.cfg.DefaultVPC: true}
	for _, rec := range s.journal.Records() {
		names[rec.VPC] = true
	}
	for _, row := range store.AddressesByNode(tx, s.cfg.Node) {
		names[row.VPC] = true
	}
	return names
}

func (s *sources) follows(names map[string]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.vpcs) != len(names) {
		return false
	}
	for name := range names {
		if s.vpcs[name] == nil {
			return false
		}
	}
	return true
}

// adjust stops outside of the lock, because stopping waits for the source.
func (s *sources) adjust(ctx context.Context, needed map[string]bool) {
	s.mu.Lock()
	following := slices.Sorted(maps.Keys(s.vpcs))
	s.mu.Unlock()
	for _, name := range following {
		if needed[name] {
			continue
		}
		s.mu.Lock()
		stopping := s.vpcs[name]
		delete(s.vpcs, name)
		s.mu.Unlock()
		for _, source := range stopping {
			source.Stop()
		}
		s.log.Info("no longer following VPC", "vpc", name)
	}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if slices.Contains(following, name) {
			continue
		}
		list, err := s.follow(ctx, []reflector.Scope{reflector.VPCNamed(name), reflector.SubnetsOfVPC(name), reflector.AddressesOfVPC(name)})
		if err != nil {
			s.log.Error("can't follow VPC", "vpc", name, "error", err)
			continue
		}
		s.mu.Lock()
		s.vpcs[name] = list
		s.mu.Unlock()
		s.broadcast()
		s.log.Info("following VPC", "vpc", name)
	}
}

// synced says whether everything that this node needs had been read at some
// time; the channel is closed when that may have changed.
func (s *sources) synced() (bool, <-chan struct{}) {
	var needed map[string]bool
	s.store.View(func(tx store.ReadTx) { needed = s.needed(tx) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.complete {
		s.complete = len(s.base) > 0 && allSynced(s.base)
		for name := range needed {
			s.complete = s.complete && s.vpcs[name] != nil && allSynced(s.vpcs[name])
		}
	}
	return s.complete, s.changed
}

// vpcSynced says whether everything of a VPC has been read.
func (s *sources) vpcSynced(vpc string) (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vpcs[vpc] != nil && allSynced(s.vpcs[vpc]), s.changed
}

// baseSynced says whether the node's own pods and Addresses have been read.
func (s *sources) baseSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.base) > 0 && allSynced(s.base)
}

func allSynced(list []*reflector.Source) bool {
	return !slices.ContainsFunc(list, func(source *reflector.Source) bool { return !source.HasSynced() })
}
