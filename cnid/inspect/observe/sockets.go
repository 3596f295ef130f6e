// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// socketFacts tell that sockets of the pod in question reach the destination in a network
// outside of every VPC. A trace follows a packet, as a raw socket sends it; the packets of
// other sockets have a backend's address, and no program sees them.
func (t Tracer) socketFacts(s state.State, q nodestatus.Question) (facts []string) {
	for _, m := range t.memberships(s, q) {
		if !state.IsOutside(m.VNI) {
			return facts
		}
		at := slices.IndexFunc(s.Services, func(service state.Service) bool {
			return service.VNI == m.VNI && service.VIP == q.To.Addr() && service.Port == q.To.Port() && service.Proto == q.Proto
		})
		if at < 0 {
			continue
		}
		var backends []string
		for _, b := range s.Services[at].Backends {
			backends = append(backends, fmt.Sprintf("%s port %d", b.IP, b.Port))
		}
		if len(backends) == 0 {
			return append(
				facts,
				fmt.Sprintf(
					"sockets of the pod are refused: service %s has no backend in %s, where the pod reaches it",
					t.words.service(q.To.Addr()),
					t.words.network(m.VNI),
				),
			)
		}
		return append(
			facts,
			fmt.Sprintf("sockets of the pod reach service %s in %s instead, at %s; no program sees their packets",
				t.words.service(q.To.Addr()), t.words.network(m.VNI), strings.Join(backends, ", ")),
		)
	}
	return facts
}

// memberships returns the interfaces that lead sockets of the pod in question to Services.
func (t Tracer) memberships(s state.State, q nodestatus.Question) []state.Membership {
	for _, rec := range t.words.records.Records() {
		if q.Pod == "" || rec.Pod.String() != q.Pod || rec.Phase != journal.PhaseDone {
			continue
		}
		at := slices.IndexFunc(s.Namespaces, func(n state.Namespace) bool { return n.Cookie == rec.Device.NetnsCookie })
		if at >= 0 {
			return s.Namespaces[at].Memberships
		}
	}
	return nil
}
