// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// WithVerdicts returns the kinds for a node that goes by the operator's verdicts about Services,
// out of all kinds. The node follows no inputs of these verdicts.
func WithVerdicts(all []*descriptor.Kind) []*descriptor.Kind {
	addresses := *vpcs.Address.Kind
	addresses.Of = maps.Clone(addresses.Of)
	delete(addresses.Of, descriptor.ServedNetwork)
	namespaces := *core.Namespace.Kind
	namespaces.OnNode = nil
	var kinds []*descriptor.Kind
	for _, kind := range all {
		switch kind {
		case core.Service.Kind, core.EndpointSlice.Kind, vpcs.Network.Kind:
			continue
		case vpcs.Address.Kind:
			kind = &addresses
		case core.Namespace.Kind:
			kind = &namespaces
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// findNamespaces adds the namespaces of pods that ask for ports of the node, because their
// tenants need a grant. It also adds the namespaces of pods with attachments of other CNI plugins,
// and the namespaces of their definitions: a tenant may have neither of them. Nothing else on the
// node depends on namespaces.
func (s *Sources) findNamespaces(tx store.ReadTx, records []journal.Record, parts map[part]bool) {
	for _, pod := range store.PodsByNode(tx, s.cfg.Node) {
		if len(pod.HostPorts) > 0 {
			parts[ofNamespace(pod.Namespace)] = true
		}
	}
	for _, claim := range multinet.ClaimsByNode(tx, s.cfg.Node) {
		if claim.Driver == netif.KindDelegate && !claim.Released {
			parts[ofNamespace(claim.Namespace)] = true
			if claim.Network.Namespace != "" {
				parts[ofNamespace(claim.Network.Namespace)] = true
			}
		}
	}
	for i := range records {
		if len(records[i].HostPorts) > 0 {
			parts[ofNamespace(records[i].Pod.Namespace)] = true
		}
	}
}

func ofNamespace(name string) part { return part{namespace: name, extent: descriptor.UsedNamespace} }

// NamespaceSynced reports whether a namespace has been read whose pods ask for ports of the
// node; the channel is closed when that may have changed.
func (s *Sources) NamespaceSynced(name string) broadcast.Gate {
	return func() (bool, <-chan struct{}) {
		s.mu.Lock()
		base, changed := s.judged && allSynced(s.base), s.changed.Next()
		s.mu.Unlock()
		return base && (!s.cfg.ScaledEndpoints || s.isRead(ofNamespace(name))), changed
	}
}

// findJudged reports whether this call is the first to find that the operator has judged all
// Services. The verdict about the API server's Service says so. Without this check,
// a node that goes by ScaledEndpoints before there are any would take all Services away. A node
// that goes by them again would begin with old ScaledEndpoints.
func (s *Sources) findJudged(tx store.ReadTx) bool {
	s.mu.Lock()
	known := s.judged
	s.mu.Unlock()
	namespace, name, _ := strings.Cut(v1alpha1.APIServerService, "/")
	if known || !slices.ContainsFunc(scaled.ByService(tx, namespace, name), func(row *scaled.Endpoint) bool {
		return row.Head != nil && row.Head.AllJudged >= v1alpha1.ScaledVersion
	}) {
		return false
	}
	s.mu.Lock()
	s.judged = true
	s.mu.Unlock()
	s.broadcast()
	return true
}
