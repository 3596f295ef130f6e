// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// number is a VLAN ID or VXLAN network identifier on a device.
type number struct {
	vniType string
	vni     uint32
	device  string
}

// String names the number, as messages have it.
func (n number) String() string {
	return fmt.Sprintf("%s %d on %s", strings.ToUpper(n.vniType), n.vni, n.device)
}

// claimObject returns the claim of a number for a network.
func claimObject(n number, net *multinet.Network) *v1alpha1.HostVNIClaim {
	return &v1alpha1.HostVNIClaim{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HostVNIClaimName(n.vniType, n.vni, n.device)},
		Spec: v1alpha1.HostVNIClaimSpec{
			Type: n.vniType, VNI: int32(n.vni), Device: n.device,
			Network: v1alpha1.HostVNIClaimNetwork{
				Group:     net.Group,
				Kind:      net.Kind,
				Namespace: net.Namespace,
				Name:      net.Name,
				UID:       net.UID,
			},
		},
	}
}

// numberOf returns the number in the spec of a network.
func numberOf(net *multinet.Network) number {
	vniType, vni := net.VNI()
	return number{vniType, vni, net.Parent()}
}

// offers reports whether a TenantConfig has the number for TenantNetworks of a tenant: a number in
// an entry for other tenants belongs to them, even if an entry for all tenants has it too.
func offers(config *multinet.TenantConfig, n number, tenant string) bool {
	return slices.ContainsFunc(config.Devices, func(device multinet.HostDevice) bool {
		return device.Name == n.device && device.Has(n.vniType, n.vni) && device.Serves(tenant) && mayGive(config, device, n)
	})
}

// mayGive reports whether an entry may give one of its numbers.
func mayGive(config *multinet.TenantConfig, device multinet.HostDevice, n number) bool {
	return len(device.Tenants) > 0 || !dedicated(config, n)
}

// dedicated reports whether an entry for single tenants has the number.
func dedicated(config *multinet.TenantConfig, n number) bool {
	return slices.ContainsFunc(config.Devices, func(device multinet.HostDevice) bool {
		return device.Name == n.device && len(device.Tenants) > 0 && device.Has(n.vniType, n.vni)
	})
}

// used reports whether another network has the number.
func used(tx store.ReadTx, net *multinet.Network, n number, taken []number) bool {
	if slices.Contains(taken, n) {
		return true
	}
	if claim := multinet.HostVNIClaimOf(tx, n.vniType, n.vni, n.device); claim != nil && claim.NetworkUID != net.UID {
		return true
	}
	return ofNetworks(tx, net, n.vniType, n.device)[n.vni]
}

// ofNetworks returns the numbers that the specs of other placed networks have on a device.
func ofNetworks(tx store.ReadTx, net *multinet.Network, vniType, device string) map[uint32]bool {
	all := map[uint32]bool{}
	for _, other := range multinet.OnParent(tx, device) {
		otherType, vni := other.VNI()
		if otherType == vniType && other.UID != net.UID {
			all[vni] = true
		}
	}
	return all
}

// chooseVNI returns the lowest free number of an entry for a network.
func chooseVNI(
	tx store.ReadTx,
	net *multinet.Network,
	device multinet.HostDevice,
	config *multinet.TenantConfig,
	taken []number,
) (uint32, *verdict.Verdict) {
	inUse := ofNetworks(tx, net, device.VNIType, device.Name)
	for _, claim := range multinet.HostVNIClaimsOn(tx, device.VNIType, device.Name) {
		inUse[claim.VNI] = true
	}
	for _, n := range taken {
		if n.vniType == device.VNIType && n.device == device.Name {
			inUse[n.vni] = true
		}
	}
	for _, r := range device.VNIs {
		for vni := r.First; vni <= r.Last; vni++ {
			if !inUse[vni] && mayGive(config, device, number{device.VNIType, vni, device.Name}) {
				return vni, nil
			}
		}
	}
	return 0, refuse(
		v1alpha1.VNIExhaustedReason,
		fmt.Sprintf(
			"no number of type %s is free on %s: delete a TenantNetwork that is not needed, or ask an administrator for a larger vniRange",
			device.VNIType,
			device.Name,
		),
	)
}
