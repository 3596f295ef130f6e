// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// notEnforced returns a sentence for each protection of docs/tenants/isolation.md that the
// interfaces of a network lack because of the network's own specification; "" if they lack none.
func notEnforced(tx store.ReadTx, net *multinet.Network) string {
	var all []string
	if others := stillOnNumber(tx, net); len(others) > 0 {
		all = append(
			all,
			fmt.Sprintf(
				"pods of %s are still on %s, which is taken from it: delete these pods",
				some(others, podsInMessage),
				numberOf(net),
			),
		)
	}
	if net.Type != multinet.TypeSRIOV {
		return strings.Join(all, "; ")
	}
	if net.VF.SpoofCheck == netif.Off {
		all = append(
			all,
			"spoofchk is off, so pods may send with each source MAC: remove it from the annotation "+annotations.VFKey,
		)
	}
	if net.VF.Trust == netif.On {
		all = append(
			all,
			"trust is on, so pods may change their MACs and receive packets of others: remove it from the annotation "+annotations.VFKey,
		)
	}
	if net.VLAN == 0 {
		all = append(all, "there is no vlan, so pods may send tagged frames into each VLAN of the device: set vlan")
	}
	return strings.Join(all, "; ")
}

// setIsolated sets the condition about protections, which a network has only if it gives up
// some of them.
func setIsolated(to *danmv1.NetworkStatus, generation int64, missing string) {
	if missing == "" {
		meta.RemoveStatusCondition(&to.Conditions, v1alpha1.IsolatedCondition)
		return
	}
	write.SetCondition(&to.Conditions, generation, v1alpha1.IsolatedCondition, false, v1alpha1.NotEnforcedReason, missing)
}
