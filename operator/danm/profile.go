// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// profile has the values that a TenantConfig gives a TenantNetwork. The operator writes them into
// the status, and never into the spec:
// a writer that applies, replaces or synchronizes its manifest would undo a change of the spec.
type profile struct {
	// device is a device or a pool of devices; "" for none.
	device    string
	vniType   string
	vni       uint32
	networkID string
	// idGiven: the TenantConfig gives the NetworkID.
	idGiven bool
}

// String describes the profile for the condition.
func (p profile) String() string {
	switch {
	case p.device == "":
		return fmt.Sprintf("NetworkID %s", p.networkID)
	case p.vni == 0:
		return fmt.Sprintf("device %s, NetworkID %s", p.device, p.networkID)
	}
	return fmt.Sprintf("%s, NetworkID %s", number{p.vniType, p.vni, p.device}, p.networkID)
}

// inStatus returns the profile in the form of a status, for a type of networks.
func (p profile) inStatus(networkType string) *danmv1.NetworkProfile {
	to := &danmv1.NetworkProfile{NetworkType: networkType, NetworkID: p.networkID, NetworkIDGiven: p.idGiven}
	if multinet.IsPool(p.device) {
		to.DevicePool = p.device
	} else {
		to.HostDevice = p.device
	}
	switch p.vniType {
	case multinet.VLAN:
		to.VLAN = int32(p.vni)
	case multinet.VXLAN:
		to.VXLAN = int32(p.vni)
	}
	return to
}

// on returns a network with the profile.
func (p profile) on(net *multinet.Network) *multinet.Network {
	next, in := *net, p.inStatus(net.Type)
	next.NetworkID, next.NetworkIDGiven, next.Profiled = p.networkID, p.idGiven, true
	next.HostDevice, next.DevicePool, next.VLAN, next.VXLAN = in.HostDevice, in.DevicePool, uint32(
		in.VLAN,
	), uint32(
		in.VXLAN,
	)
	return &next
}

// planProfile plans the profile of a TenantNetwork, with the claim of its number. It
// returns why the network has none.
//
// A claim of the network's UID proves its number, so a later change of the TenantConfig
// does not matter to it. Each other property has no proof but the present TenantConfig:
// a tenant may have written it.
func (d *decision) planProfile(tx store.ReadTx, net *multinet.Network, taken []number, limits Limits) *verdict.Verdict {
	config := multinet.ServingTenantConfig(tx)
	if !multinet.Dynamic(net.Type) {
		return d.planStatic(tx, net, config)
	}
	own := ownClaims(tx, net)
	if n, ok := claimedElsewhere(tx, net, own, config, taken); ok {
		d.claim = &n
		return pending(n)
	}
	var want profile
	want.networkID, want.idGiven = networkIDOf(net, config)
	var device multinet.HostDevice
	if len(own) > 0 {
		want.device, want.vniType, want.vni = own[0].Device, own[0].Type, own[0].VNI
	} else {
		var r *verdict.Verdict
		if device, r = chooseDevice(net, config, tenancy.OfNamespace(tx, net.Namespace)); r != nil {
			return r
		}
		want.device, want.vniType = device.Name, device.VNIType
	}
	if r := outOfRange(tx, net, want, config); r != nil {
		return r
	}
	if r := networkIDRefusal(want.networkID, numbered(net, want.vniType)); r != nil {
		return r // before a number is claimed
	}
	if want.vniType != "" && want.vni == 0 {
		if r := limits.numbersExceeded(tx, net); r != nil {
			return r
		}
		vni, r := chooseVNI(tx, net, device, config, taken)
		if r != nil {
			return r
		}
		d.claim = &number{want.vniType, vni, want.device}
		return pending(*d.claim)
	}
	d.profile = &want
	if _, vni := net.VNI(); vni == want.vni && len(own) > 0 {
		d.release = own[1:] // not before the status has the number, or another operator may write it
	}
	return nil
}

// numbered returns the network as it will be with a number of a type; "" for none.
func numbered(net *multinet.Network, vniType string) *multinet.Network {
	next := *net
	next.VLAN, next.VXLAN = 0, 0
	if vniType != "" {
		next.VLAN = 1 // any
	}
	return &next
}

func pending(n number) *verdict.Verdict {
	v := verdict.Wait(v1alpha1.VNIPendingReason, fmt.Sprintf("%s is being claimed", n))
	return &v
}

// planStatic plans the profile of a network whose plugin makes the interfaces: its
// configuration on the nodes has the name that the TenantConfig gives.
func (d *decision) planStatic(tx store.ReadTx, net *multinet.Network, config *multinet.TenantConfig) *verdict.Verdict {
	if len(d.pods) == 0 {
		d.release = ownClaims(tx, net) // of an earlier type
	}
	if r := unusable(config); r != nil {
		return r
	}
	id, ok := config.NetworkIDs[net.Type]
	if !ok {
		return refuse(
			v1alpha1.TypeNotServedReason,
			fmt.Sprintf(
				"networkIds of TenantConfig %q has no entry for type %q: use another NetworkType, or ask an administrator for an entry",
				config.Name,
				net.Type,
			),
		)
	}
	if net.NetworkIDGiven && net.NetworkID != id {
		return refuse(
			v1alpha1.TypeNotServedReason,
			fmt.Sprintf(
				"networkIds of TenantConfig %q gives type %q another NetworkID now: create the network again",
				config.Name,
				net.Type,
			),
		)
	}
	if _, vni := net.VNI(); vni != 0 && !net.Profiled {
		return refuse(v1alpha1.InvalidReason, "a TenantNetwork of a static type has neither vlan nor vxlan: remove them")
	}
	if net.Parent() != "" {
		if _, r := chooseDevice(net, config, tenancy.OfNamespace(tx, net.Namespace)); r != nil {
			return r
		}
	}
	d.profile = &profile{device: net.Parent(), networkID: id, idGiven: true}
	return nil
}

// ownClaims returns the claims of a network, the one to keep first: the claim of the number in the
// spec, else the lowest.
func ownClaims(tx store.ReadTx, net *multinet.Network) []*multinet.HostVNIClaim {
	own := multinet.HostVNIClaimsByNetwork(tx, net.UID)
	vniType, vni := net.VNI()
	rank := func(c *multinet.HostVNIClaim) int {
		if c.Type == vniType && c.VNI == vni && c.Device == net.Parent() {
			return 0
		}
		return 1
	}
	slices.SortFunc(own, func(a, b *multinet.HostVNIClaim) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.VNI, b.VNI), cmp.Compare(a.Name, b.Name))
	})
	return own
}

// claimedElsewhere returns the number of the spec if the store has no claim of it for the
// network, and the network may have it: another operator may have claimed it, or the claim
// is lost and can be made again as it was.
func claimedElsewhere(
	tx store.ReadTx,
	net *multinet.Network,
	own []*multinet.HostVNIClaim,
	config *multinet.TenantConfig,
	taken []number,
) (number, bool) {
	vniType, vni := net.VNI()
	n := number{vniType, vni, net.Parent()}
	if vni == 0 || len(own) == 0 && !net.Profiled || config == nil ||
		!offers(config, n, tenancy.OfNamespace(tx, net.Namespace)) ||
		used(tx, net, n, taken) {
		return number{}, false
	}
	claimed := len(own) > 0 && own[0].Type == vniType && own[0].VNI == vni && own[0].Device == n.device
	return n, !claimed
}

// networkIDOf returns the NetworkID that a network has to have, and whether the TenantConfig gives
// it. A network keeps the NetworkID that it has been given.
func networkIDOf(net *multinet.Network, config *multinet.TenantConfig) (id string, given bool) {
	if net.Profiled || config == nil || config.NetworkIDs[net.Type] == "" {
		return net.NetworkID, net.NetworkIDGiven
	}
	return config.NetworkIDs[net.Type], true
}

func unusable(config *multinet.TenantConfig) *verdict.Verdict {
	switch {
	case config == nil:
		return refuse(v1alpha1.TenantConfigNotFoundReason, "no TenantConfig exists: ask an administrator to create one")
	case config.Invalid != "":
		return refuse(
			v1alpha1.TenantConfigNotFoundReason,
			fmt.Sprintf("TenantConfig %q can't be used: see its Ready condition", config.Name),
		)
	}
	return nil
}

// chooseDevice returns the entry of the TenantConfig for a network: the first of the name
// that the network has, else one that is not a pool. Entries for the tenant precede those
// for all, and entries with the ranges of the network those without.
func chooseDevice(
	net *multinet.Network,
	config *multinet.TenantConfig,
	tenant string,
) (multinet.HostDevice, *verdict.Verdict) {
	if r := unusable(config); r != nil {
		return multinet.HostDevice{}, r
	}
	if _, vni := net.VNI(); vni != 0 && !net.Profiled && multinet.Dynamic(net.Type) {
		return multinet.HostDevice{}, refuse(
			v1alpha1.InvalidReason,
			"the operator writes vlan and vxlan of a TenantNetwork: remove them",
		)
	}
	var found []multinet.HostDevice
	for _, device := range config.Devices {
		switch {
		case !device.Serves(tenant):
		case net.Type == multinet.TypeSRIOV && device.VNIType == multinet.VXLAN: // packets do not pass the node
		case net.Parent() == "" && !multinet.IsPool(device.Name),
			net.Parent() == device.Name && multinet.IsPool(device.Name) == (net.DevicePool != "") && mayStay(net, device):
			found = append(found, device)
		}
	}
	found = preferred(found, func(device multinet.HostDevice) bool { return len(device.Tenants) > 0 })
	found = preferred(found, func(device multinet.HostDevice) bool { return device.Admits(net) })
	switch {
	case len(found) == 0:
		return multinet.HostDevice{}, notOffered(net, config, tenant)
	case net.Parent() == "":
		return slices.MaxFunc(
			found,
			func(a, b multinet.HostDevice) int { return bytes.Compare(score(net, a), score(net, b)) },
		), nil
	}
	return found[0], nil
}

// preferred returns the entries that are good, or all of them without any.
func preferred(all []multinet.HostDevice, good func(multinet.HostDevice) bool) []multinet.HostDevice {
	var some []multinet.HostDevice
	for _, device := range all {
		if good(device) {
			some = append(some, device)
		}
	}
	if len(some) == 0 {
		return all
	}
	return some
}

// outOfRange finds a range that the TenantConfig does not give the tenant on the device that
// the network is to have. Without an entry for it, the number of the network is its proof.
func outOfRange(tx store.ReadTx, net *multinet.Network, want profile, config *multinet.TenantConfig) *verdict.Verdict {
	if config == nil {
		return nil
	}
	var ranges []string
	for _, device := range config.Devices {
		if device.Name != want.device || device.VNIType != want.vniType ||
			want.vni != 0 && !device.Has(want.vniType, want.vni) ||
			!device.Serves(tenancy.OfNamespace(tx, net.Namespace)) {
			continue
		}
		if device.Admits(net) {
			return nil
		}
		for _, r := range device.Ranges {
			ranges = append(ranges, r.String())
		}
	}
	if len(ranges) == 0 {
		return nil
	}
	return refuse(
		v1alpha1.RangeNotOfferedReason,
		fmt.Sprintf(
			"TenantConfig %q gives the tenant on %s only addresses of %s: use a cidr and net6 inside of them, or ask an administrator for another range",
			config.Name,
			want.device,
			some(ranges, 10),
		),
	)
}

// mayStay keeps a network with a profile away from another kind of entry: a network with a VNI does
// not move to an entry without one, and the reverse.
func mayStay(net *multinet.Network, device multinet.HostDevice) bool {
	_, vni := net.VNI()
	return !net.Profiled || !multinet.Dynamic(net.Type) || (vni != 0) == (device.VNIType != "")
}

// score orders devices for a network (rendezvous hashing): a device that is added or
// removed changes the choice of few networks, and a repeated choice is the same.
func score(net *multinet.Network, device multinet.HostDevice) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", net.UID, device.Name, device.VNIType))
	return sum[:]
}

func notOffered(net *multinet.Network, config *multinet.TenantConfig, tenant string) *verdict.Verdict {
	var names []string
	for _, device := range config.Devices {
		if device.Serves(tenant) {
			names = append(names, device.Name)
		}
	}
	offer := "it offers none"
	if len(names) > 0 {
		offer = "it offers " + some(slices.Compact(names), 10)
	}
	if net.Parent() == "" {
		return refuse(
			v1alpha1.DeviceNotOfferedReason,
			fmt.Sprintf(
				"TenantConfig %q has no device for the network: %s; name a pool in device_pool, or ask an administrator for a device",
				config.Name,
				offer,
			),
		)
	}
	return refuse(
		v1alpha1.DeviceNotOfferedReason,
		fmt.Sprintf(
			"TenantConfig %q does not offer %q to networks such as this one: %s; create the network again with one of them",
			config.Name,
			net.Parent(),
			offer,
		),
	)
}
