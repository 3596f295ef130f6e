// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// TestNICAnnotation_BesideInterfaceList_Refused: the annotation nic requests a subnet or an
// address of a VPC, and is not ignored where another request or a default network exists.
func TestNICAnnotation_BesideInterfaceList_Refused(t *testing.T) {
	nic := func(p *store.Pod) { p.NIC = `{"subnet": "default"}` }
	rows := world(danmNet("default"), danmNet("internal"))
	if desired, refusal := decide(t, "", rows, nic); refusal != "" || !slices.Equal(short(desired), []string{"eth0 veth default [] IPv4 and IPv6"}) {
		t.Errorf("beside a default network: %v %s", short(desired), refusal)
	}
	_, refusal := decide(t, `[{"network":"internal","ip":"dynamic"}]`, rows, nic)
	if !strings.HasPrefix(refusal, v1alpha1.InterfacesInvalidReason) || !strings.Contains(refusal, "arktos.futurewei.com/nic") {
		t.Errorf("beside a list: %s", refusal)
	}
}

func TestNetwork_NoDevice_RefusedByName(t *testing.T) {
	for name, change := range map[string]func(*multinet.Network){
		"none":   func(n *multinet.Network) { n.HostDevice = "" },
		"a pool": func(n *multinet.Network) { n.HostDevice, n.DevicePool = "", "nokia.k8s.io/ens4" },
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := decide(t, `[{"network":"internal","ip":"dynamic"}]`, world(danmNet("internal", change)))
			if !strings.HasPrefix(refusal, v1alpha1.NetworkTypeReason) || !strings.Contains(refusal, "host_device") {
				t.Error(refusal)
			}
		})
	}
}
