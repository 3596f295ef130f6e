// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

func TestIsolationCondition_VirtualFunctionSettings_WeakOnesShown(t *testing.T) {
	for name, c := range map[string]struct {
		networkType string
		vlan        uint32
		vf          netif.VF
		want        []string
	}{
		"functions in a VLAN":           {multinet.TypeSRIOV, 7, netif.VF{}, nil},
		"the settings that are default": {multinet.TypeSRIOV, 7, netif.VF{SpoofCheck: netif.On, Trust: netif.Off}, nil},
		"functions without a VLAN":      {multinet.TypeSRIOV, 0, netif.VF{}, []string{"no vlan"}},
		"no check of the source":        {multinet.TypeSRIOV, 7, netif.VF{SpoofCheck: netif.Off}, []string{"spoofchk is off"}},
		"nothing is checked":            {multinet.TypeSRIOV, 0, netif.VF{SpoofCheck: netif.Off, Trust: netif.On}, []string{"spoofchk is off", "trust is on", "no vlan"}},
		"another type":                  {multinet.TypeMACVLAN, 0, netif.VF{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			network := net(multinet.KindClusterNetwork, "", "net", 0, func(n *multinet.Network) { n.Type, n.VLAN, n.VF = c.networkType, c.vlan, c.vf })
			var d decision
			operatortest.New(t, network).View(func(tx store.ReadTx) { d = decide(tx, network, nil, Limits{}) })
			status := &danmv1.NetworkStatus{}
			setStatus(status, 1, d)
			got := meta.FindStatusCondition(status.Conditions, v1alpha1.IsolatedCondition)
			switch {
			case len(c.want) == 0 && got != nil:
				t.Errorf("condition %+v", got)
			case len(c.want) > 0 && (got == nil || got.Status != "False" || got.Reason != v1alpha1.NotEnforcedReason):
				t.Errorf("condition %+v", got)
			}
			for _, text := range c.want {
				if got != nil && !strings.Contains(got.Message, text) {
					t.Errorf("%q lacks %q", got.Message, text)
				}
			}
			if !d.IsReady() {
				t.Errorf("pods can't use it: %s", d.Message)
			}
			d.notEnforced = ""
			setStatus(status, 2, d)
			if left := meta.FindStatusCondition(status.Conditions, v1alpha1.IsolatedCondition); left != nil {
				t.Errorf("condition %+v is left", left)
			}
		})
	}
}
