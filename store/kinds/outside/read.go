// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/sound"
)

// Limits of VNIs: IEEE 802.1Q, RFC 7348 (24 bits).
const (
	maxVLAN  = 4094
	maxVXLAN = 1<<24 - 1
)

// readHost reads the fields that concern the nodes.
func readHost(row *multinet.Network, spec *danmv1.NetworkSpec, invalid *values.Faults) {
	o := &spec.Options
	row.HostDevice, row.DevicePool = invalid.Text("host_device", o.HostDevice), invalid.Text("device_pool", o.DevicePool)
	if o.HostDevice != "" && o.DevicePool != "" {
		row.DevicePool = ""
		invalid.Add("host_device and device_pool exclude each other: remove one")
	}
	if row.Type == multinet.TypeSRIOV && (o.DevicePool == "" || o.HostDevice != "") {
		invalid.Add(
			"a network of type sriov has a device_pool, and no host_device: set device_pool to the name of the resource",
		)
	}
	row.VLAN = number(o.VLAN, maxVLAN, "vlan", invalid)
	row.VXLAN = number(o.VXLAN, maxVXLAN, "vxlan", invalid)
	if row.VLAN != 0 && row.VXLAN != 0 {
		row.VXLAN = 0
		invalid.Add("vlan and vxlan exclude each other: remove one")
	}
	if row.Type == multinet.TypeSRIOV && row.VXLAN != 0 {
		row.VXLAN = 0
		invalid.Add(
			"a network of type sriov has no vxlan, because its packets do not pass the node: use a vlan, or another type",
		)
	}
	row.Table = int(number(o.RTTables, 1<<31-1, "rt_tables", invalid))
	row.Settings.MTU = int(number(o.MTU, 65535, "mtu", invalid))
	if len(spec.AllowedTenants) > 0 && row.Kind != multinet.KindClusterNetwork {
		row.AllowedNamespaces = nil
		invalid.Add("AllowedTenants is for ClusterNetworks alone: remove it")
	}
}

// readMode reads the annotation with the mode of macvlan interfaces. Mode passthru
// takes the device from everything else on the node and changes its Ethernet address, so it
// is for ClusterNetworks, which cluster administrators make.
func readMode(row *multinet.Network, texts map[string]string, invalid *values.Faults) {
	mode, given := texts[annotations.ModeKey]
	switch {
	case !given:
	case row.Type != multinet.TypeMACVLAN:
		invalid.Add("the annotation %s is for networks of type macvlan: remove it", annotations.ModeKey)
	case !slices.Contains(annotations.Modes, mode):
		invalid.Add(
			"the annotation %s has no mode %s: use one of %s",
			annotations.ModeKey,
			quote.Text(mode),
			strings.Join(annotations.Modes, ", "),
		)
	case mode == annotations.ModePassthru && row.Kind != multinet.KindClusterNetwork:
		invalid.Add(
			"mode %s takes the device from everything else on the node, so only a ClusterNetwork can have it: use another mode, or a ClusterNetwork",
			mode,
		)
	default:
		row.Settings.Mode = mode
	}
}

// readVF reads the annotation with the settings of virtual functions. Some give an
// interface power over others on its device or network, so they are for ClusterNetworks,
// which cluster administrators make.
func readVF(row *multinet.Network, texts map[string]string, invalid *values.Faults) {
	text, given := texts[annotations.VFKey]
	if !given {
		return
	}
	if row.Type != multinet.TypeSRIOV {
		invalid.Add("the annotation %s is for networks of type sriov: remove it", annotations.VFKey)
		return
	}
	vf, err := annotations.ParseVF(text)
	if err == nil && row.Kind != multinet.KindTenantNetwork { // the operator writes the VLAN of a TenantNetwork later
		err = vf.CheckVLAN(row.VLAN)
	}
	switch {
	case err != nil:
		invalid.Add("%v", err)
	case row.Kind != multinet.KindClusterNetwork && len(vf.Privileged()) > 0:
		invalid.Add(
			"%s in the annotation %s gives pods power over others on the device or its network, so only a ClusterNetwork can have it: remove it, or use a ClusterNetwork",
			strings.Join(vf.Privileged(), ", "),
			annotations.VFKey,
		)
	default:
		row.VF = vf
	}
}

// number reads a number from 0, which stands for none, to limit.
func number(value int32, limit int64, field string, invalid *values.Faults) uint32 {
	if value < 0 || int64(value) > limit {
		invalid.Add("%s %d is not from 0 to %d", field, value, limit)
		return 0
	}
	return uint32(value)
}

// readRanges reads the ranges of both families, and their routes.
func readRanges(row *multinet.Network, o *danmv1.NetworkOptions, invalid *values.Faults) {
	v4, v6 := cmp.Or(o.AllocationPool, &danmv1.AllocationPool{}), cmp.Or(o.AllocationPoolV6, &danmv1.AllocationPoolV6{})
	row.V4 = family{"cidr", "allocation_pool", ipfamily.IPv4, invalid}.read(o.CIDR, pool{start: v4.Start, end: v4.End})
	row.V6 = family{"net6", "allocation_pool_v6", ipfamily.IPv6, invalid}.read(o.Net6, pool{v6.CIDR, v6.Start, v6.End})
	row.Routes = append(
		readRoutes(o.Routes, row.V4.Prefix, "routes", "cidr", invalid),
		readRoutes(o.Routes6, row.V6.Prefix, "routes6", "net6", invalid)...)
}

// pool is the text of a pool. An IPv4 pool has no CIDR.
type pool struct{ cidr, start, end string }

// family reads the range of a family by the names of its fields.
type family struct {
	field, pool string
	is          ipfamily.Family
	invalid     *values.Faults
}

func (f family) read(text string, p pool) multinet.Range {
	if text == "" {
		if p != (pool{}) {
			f.invalid.Add("%s without %s: set %s", f.pool, f.field, f.field)
		}
		return multinet.Range{}
	}
	prefix, ok := f.prefix(text, f.field)
	if !ok {
		return multinet.Range{}
	}
	r := multinet.Range{Prefix: prefix}
	switch {
	case prefix.Addr().Is4() || p != (pool{}):
		r.Pool = f.readPool(prefix, p)
	default:
		r.EUI64 = prefix.Bits() <= 64
	}
	return r
}

func (f family) prefix(text, field string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !f.is.Has(prefix.Addr()) || prefix.Addr().Is4In6() {
		f.invalid.Add("%s %s is no range of the family in CIDR notation", field, quote.Text(text))
		return netip.Prefix{}, false
	}
	return prefix.Masked(), true
}

// readPool reads a pool in a range. By default it starts after the first address and ends
// before the last one.
func (f family) readPool(prefix netip.Prefix, p pool) store.AddrRange {
	within := prefix
	if p.cidr != "" {
		part, ok := f.prefix(p.cidr, f.pool+".cidr")
		if !ok {
			return store.AddrRange{}
		}
		if part.Bits() < prefix.Bits() || !prefix.Contains(part.Addr()) {
			f.invalid.Add("%s.cidr %s is not inside %s %s", f.pool, part, f.field, prefix)
			return store.AddrRange{}
		}
		within = part
	}
	first, ok := f.address(p.start, "start", within, within.Addr().Next())
	last, okLast := f.address(p.end, "end", within, sound.LastOf(within).Prev())
	if !ok || !okLast {
		return store.AddrRange{}
	}
	if !first.IsValid() || !last.IsValid() || !first.Less(last) {
		f.invalid.Add("%s ends at %s, which is not above its start %s: give a larger range", f.pool, last, first)
		return store.AddrRange{}
	}
	return store.AddrRange{First: first, Last: last}
}

// address reads an end of a pool, which is otherwise where the text is empty.
func (f family) address(text, end string, within netip.Prefix, otherwise netip.Addr) (netip.Addr, bool) {
	if text == "" {
		return otherwise, true
	}
	ip, err := netip.ParseAddr(text)
	if err != nil || !within.Contains(ip) {
		f.invalid.Add("%s.%s %s is no address of %s", f.pool, end, quote.Text(text), within)
		return netip.Addr{}, false
	}
	return ip, true
}

// readRoutes reads routes by destination. Each gateway has to be in the range.
func readRoutes(
	texts map[string]danmv1.Gateway,
	prefix netip.Prefix,
	field, rangeField string,
	invalid *values.Faults,
) []multinet.Route {
	if len(texts) > 0 && !prefix.IsValid() {
		invalid.Add("%s without a valid %s: set %s", field, rangeField, rangeField)
		return nil
	}
	var routes []multinet.Route
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		dst, err := netip.ParsePrefix(text)
		if err != nil || dst.Addr().Is4() != prefix.Addr().Is4() || dst.Addr().Is4In6() {
			invalid.Add("destination %s in %s is no range of the family in CIDR notation", quote.Text(text), field)
			continue
		}
		gateway, err := netip.ParseAddr(string(texts[text]))
		if err != nil || !prefix.Contains(gateway) {
			invalid.Add("gateway %s in %s is no address of %s", quote.Text(string(texts[text])), field, prefix)
			continue
		}
		routes = append(routes, multinet.Route{Dst: dst.Masked(), Gateway: gateway})
	}
	slices.SortFunc(routes, func(a, b multinet.Route) int { return a.Dst.Compare(b.Dst) })
	for i := 1; i < len(routes); i++ {
		if routes[i].Dst == routes[i-1].Dst {
			invalid.Add("%s has two gateways for %s: remove one", field, routes[i].Dst)
		}
	}
	return routes
}
