// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

const first = v1alpha1.MinDomainNumber

// lan returns the reference of a network with a UID. kind is a kind of DANM, or the kind of
// definitions.
func lan(kind, uid string) store.NetworkRef {
	return store.NetworkRef{Group: "danm.k8s.io", Kind: kind, Namespace: "shop", Name: "lan", UID: uid}
}

func danmNet(uid string) *multinet.Network {
	return &multinet.Network{
		Meta: operatortest.Meta(uid, 0), Ref: multinet.Ref{Group: "danm.k8s.io", Kind: multinet.KindDanmNet, Namespace: "shop", Name: "lan"},
	}
}

func definition(uid string) *multinet.Definition {
	return &multinet.Definition{Meta: operatortest.Meta(uid, 0), Namespace: "shop", Name: "lan"}
}

func attached(network store.NetworkRef) *multinet.Claim {
	return &multinet.Claim{Meta: operatortest.Meta("claim-"+network.UID, 0), Namespace: "shop", Name: "pod.net1", Network: network}
}

func holds(number uint32, network store.NetworkRef) *multinet.DomainClaim {
	return &multinet.DomainClaim{Meta: operatortest.Meta(fmt.Sprintf("number-%d", number), 0), Number: number, Network: network}
}

func TestNetworkNumber_Use_KeptWhileUsed(t *testing.T) {
	danm, nad := lan(multinet.KindDanmNet, "u1"), lan(multinet.KindDefinition, "u1")
	successor := lan(multinet.KindDanmNet, "u2")
	for name, c := range map[string]struct {
		rows    []any
		taken   []uint32
		claim   uint32
		release []uint32
	}{
		"a network without pods needs none":         {rows: []any{danmNet("u1")}},
		"the first attachment":                      {rows: []any{danmNet("u1"), attached(danm)}, claim: first},
		"an attachment to a network that is gone":   {rows: []any{attached(danm)}, claim: first},
		"another operator was faster":               {rows: []any{attached(danm)}, taken: []uint32{first, first + 1}, claim: first + 2},
		"the number above those of other networks":  {rows: []any{attached(danm), holds(first+5, successor)}, claim: first + 6},
		"the lowest free one behind the highest":    {rows: []any{attached(danm), holds(v1alpha1.MaxDomainNumber, successor), holds(first, successor)}, claim: first + 1},
		"it is kept":                                {rows: []any{danmNet("u1"), attached(danm), holds(first, danm)}},
		"it is kept without pods":                   {rows: []any{danmNet("u1"), holds(first, danm)}},
		"it is kept while pods are attached":        {rows: []any{attached(danm), holds(first, danm)}},
		"a definition keeps it":                     {rows: []any{definition("u1"), holds(first, nad)}},
		"it is released":                            {rows: []any{holds(first, danm)}, release: []uint32{first}},
		"a definition's is released":                {rows: []any{holds(first, nad)}, release: []uint32{first}},
		"a network made anew does not keep it":      {rows: []any{danmNet("u2"), holds(first, danm)}, release: []uint32{first}},
		"a definition made anew does not keep it":   {rows: []any{definition("u2"), holds(first, nad)}, release: []uint32{first}},
		"of two operators' claims the lowest stays": {rows: []any{attached(danm), holds(first+1, danm), holds(first, danm)}, release: []uint32{first + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, c.rows...).View(func(tx store.ReadTx) {
				d, err := decide(tx, "u1", c.taken)
				if err != nil {
					t.Fatal(err)
				}
				if d.claim != c.claim || c.claim != 0 && d.network != danm {
					t.Errorf("claims %d for %v, want %d", d.claim, d.network, c.claim)
				}
				var released []uint32
				for _, row := range d.release {
					released = append(released, row.Number)
				}
				if fmt.Sprint(released) != fmt.Sprint(c.release) {
					t.Errorf("releases %v, want %v", released, c.release)
				}
			})
		})
	}
}
