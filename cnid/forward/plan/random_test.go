// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
)

// randomWorld changes any of its rows at random.
type randomWorld struct {
	*world
	*rand.Rand
	metadata []netip.Addr
	seq      uint64
	// alone reports that a step changes one row, so that no other change hides what
	// depends on it.
	alone bool
	// then is the change of the next step, if there is one.
	then func(store.Tx) error
}

// step makes the changes of one step: a single one, or some together.
func (r *randomWorld) step(t *testing.T) {
	t.Helper()
	if then := r.then; then != nil {
		r.then = nil
		r.update(t, then)
		return
	}
	changes := 1
	if r.alone = r.IntN(2) == 0; !r.alone {
		changes += r.IntN([]int{3, 3, 3, 20}[r.IntN(4)])
	}
	for range changes {
		r.change(t)
	}
}

func (r *randomWorld) adapt(cfg *Config) { cfg.Metadata, cfg.NodePorts = r.metadata, true }

func (r *randomWorld) of(list ...string) string { return list[r.IntN(len(list))] }

func (r *randomWorld) vpcName() string { return r.of("default", "blue", "red", "green") }

func (r *randomWorld) ip() string { return fmt.Sprintf("10.10.1.%d", 1+r.IntN(6)) }

func (r *randomWorld) meta(name string) store.Meta {
	return store.Meta{UID: name, Created: time.Unix(int64(r.IntN(3)), 0)}
}

func (r *randomWorld) change(t *testing.T) {
	t.Helper()
	switch r.IntN(13) {
	case 12:
		r.changeTables()
	case 0, 1, 2:
		r.records = slices.Clone(r.records) // a Planner goes by the slice
		r.changeRecords()
	case 3:
		r.devices = maps.Clone(r.devices)
		if rec := r.anyRecord(); rec != nil && r.IntN(2) == 0 {
			delete(r.devices, rec.HostIfName)
		} else if rec != nil {
			r.devices[rec.HostIfName] = rec.Device.HostIfindex
		}
	case 4:
		if r.IntN(10) == 0 {
			r.metadata = ips(r.ip())
		}
	default:
		r.update(t, r.changeRows)
	}
}

func (r *randomWorld) update(t *testing.T, change func(store.Tx) error) {
	t.Helper()
	if err := r.store.Update(change); err != nil && !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
}

// anyRecord is one in a VPC, or nil.
func (r *randomWorld) anyRecord() *journal.Record {
	all := r.inVPCs()
	if len(all) == 0 {
		return nil
	}
	return all[r.IntN(len(all))]
}

// inVPCs are the records in VPCs.
func (r *randomWorld) inVPCs() (all []*journal.Record) {
	for i := range r.records {
		if r.records[i].InVPC() {
			all = append(all, &r.records[i])
		}
	}
	return all
}

func (r *randomWorld) changeRecords() {
	if r.IntN(8) == 0 {
		r.changeOutsideRecords()
		return
	}
	rec := r.anyRecord()
	switch {
	case rec == nil || len(r.inVPCs()) < 6 && r.IntN(2) == 0:
		r.attachAny()
	case r.IntN(3) == 0:
		gone := rec.Seq
		r.records = slices.DeleteFunc(r.records, func(rec journal.Record) bool { return rec.Seq == gone })
	case r.IntN(2) == 0:
		rec.Phase = []journal.Phase{journal.PhaseIntended, journal.PhaseDone, journal.PhaseLeaving}[r.IntN(3)]
	default:
		rec.MTU = 1400 + r.IntN(3)
		r.hold(*rec)
	}
}

// attachAny attaches one pod of few.
func (r *randomWorld) attachAny() {
	r.seq++
	number := int(200 + r.seq)
	vpc := r.vpcName()
	rec := journal.Record{
		Identity: journal.Identity{
			Key: journal.Key{ContainerID: fmt.Sprint(number)},
			Pod: journal.Pod{Namespace: "ns", Name: "p", UID: fmt.Sprintf("p%d", r.IntN(4))},
		},
		Binding: journal.Binding{VPC: vpc, VNI: vnis[vpc][r.IntN(2)]},
		Interface: journal.Interface{
			Kind:       veth.Kind,
			HostIfName: fmt.Sprintf("alv-%d", number),
			Addrs:      prefixes(r.ip() + "/24"),
			MAC:        journal.MAC{2, 0, 0, 0, 1, byte(number)},
			Device:     journal.Device{HostIfindex: number, NetnsCookie: uint64(r.IntN(4))},
		},
		Shadow4: netip.AddrFrom4([4]byte{169, 254, 65, byte(number)}), Seq: 100 + r.seq, Phase: journal.PhaseDone,
	}
	if r.IntN(3) == 0 {
		rec.HostPorts = []journal.HostPort{{Protocol: "TCP", HostPort: []uint16{80, 81, 30443, 30444}[r.IntN(4)], Port: 80}}
	}
	r.records = append(r.records, rec)
	r.devices = maps.Clone(r.devices)
	r.devices[rec.HostIfName] = number
	if r.IntN(8) > 0 { // most have what they are attached with
		r.hold(rec)
	}
}

// vnis are those that a VPC has at one time or another; blue and red may change
// theirs for each other's.
var vnis = map[string][2]uint32{"default": {1, 1}, "blue": {20, 30}, "red": {30, 20}, "green": {40, 41}}

// changeRows changes one row or several at once.
func (r *randomWorld) changeRows(tx store.Tx) error {
	rows := 1
	if !r.alone {
		rows += r.IntN(3)
	}
	for range rows {
		if err := r.changeRow(tx); err != nil {
			return err
		}
	}
	return nil
}

func (r *randomWorld) changeRow(tx store.Tx) error {
	remove := r.IntN(4) == 0
	switch r.IntN(25) {
	case 24:
		return r.changeMember(tx, remove)
	case 23:
		return r.changeOutside(tx, remove)
	case 22:
		return r.prepare(tx)
	case 20, 21:
		return r.changeBackendHere(tx)
	case 16:
		return r.changeGrant(tx, remove)
	case 17, 18, 19:
		return r.changeExposed(tx, remove)
	case 9, 10:
		return r.changeNetwork(tx, remove)
	case 11, 12, 13, 14:
		return r.changeBalancer(tx, remove)
	case 0:
		return r.changeVPC(tx, remove)
	case 1:
		name := r.of("s1", "s2", "s3")
		if remove {
			store.DeleteSubnet(tx, name, name)
			return nil
		}
		return store.PutSubnet(tx, &store.Subnet{
			Bouncers: r.IntN(2), Meta: r.meta(name), Name: name, VPC: r.vpcName(), Prefixes: prefixes(r.of("10.10.1.0/24", "10.10.2.0/24")),
			Gateways: ips(r.ip()), Ready: r.IntN(2) == 0,
		})
	case 2, 3, 4:
		return r.changeAddress(tx, remove)
	case 5:
		return r.changeNode(tx, remove)
	case 6:
		uid := r.of("p0", "p1", "p2", "b1", "r1")
		if remove {
			store.DeletePod(tx, uid)
			return nil
		}
		if r.IntN(2) == 0 {
			return podWithHooks(uid)(tx)
		}
		if r.IntN(2) == 0 {
			if rec := r.anyRecord(); rec != nil {
				return tell(rec.Pod.UID, rec.VPC, rec.Addrs[0].String())(tx)
			}
			return tell(uid, r.vpcName(), r.ip()+"/24")(tx)
		}
		return pod(uid, r.IntN(2) == 0)(tx)
	default:
		return r.changeService(tx, remove)
	}
}

func (r *randomWorld) changeVPC(tx store.Tx, remove bool) error {
	name := r.vpcName()
	uid := name
	if held := store.GetVPC(tx, name); held != nil {
		uid = held.UID
	}
	remake := r.IntN(4) == 0
	if remove || remake {
		store.DeleteVPC(tx, name, uid)
		uid = r.of(name, name+" again")
	}
	if remove {
		return nil
	}
	row := &store.VPC{
		Meta: store.Meta{UID: uid}, Name: name, VNI: vnis[name][r.IntN(2)], Ready: true,
		Prefixes: prefixes(r.of("10.10.0.0/16", "10.244.0.0/16", "192.0.2.0/24")), EgressMasquerade: r.IntN(2) == 0,
		AllowedTenants: [][]string{nil, {"t1"}, {"t1", "t2"}, {"*"}}[r.IntN(4)],
	}
	if r.IntN(2) == 0 {
		row.EgressAllow = prefixes(r.of("203.0.113.0/24", "10.10.1.3/32"))
	}
	return store.PutVPC(tx, row)
}

func (r *randomWorld) changeAddress(tx store.Tx, remove bool) error {
	vpc, ip := r.vpcName(), r.ip()
	name := vpc + "." + ip
	if remove {
		store.DeleteAddress(tx, name, name)
		return nil
	}
	if r.IntN(8) == 0 {
		return r.moveAddress(tx, vpc, ip)
	}
	holder := store.Holder{Kind: store.HolderPod, Namespace: r.of("default", "kube-system", "shop"), Name: "p", UID: r.of("p0", "p1", "p2", "b1")}
	node := r.of("node1", "node2", "node3")
	switch r.IntN(5) {
	case 0:
		holder = store.Holder{Kind: store.HolderNode, Name: node, UID: node}
	case 1, 2:
		namespace, name := r.serviceName()
		holder = store.Holder{Kind: store.HolderService, Namespace: namespace, Name: name, UID: r.serviceUID(namespace, name)}
		if r.IntN(3) == 0 { // which only people write
			holder.UID = r.serviceUID(r.serviceName())
		}
	}
	meta := r.meta(name)
	meta.Deleting = r.IntN(8) == 0
	return store.PutAddress(tx, &store.Address{
		Meta: meta, Name: name, VPC: vpc, Subnet: r.of("s1", "s2", "s3"), IP: netip.MustParseAddr(ip), MAC: r.of("02:00:00:00:01:01", "02:00:00:00:01:02"),
		Node: node, Holder: holder, External: holder.UID == "p2",
	})
}

// changeBalancer claims an address for a Service that there is, where it is served,
// releases one, or recreates the Service.
func (r *randomWorld) changeBalancer(tx store.Tx, release bool) error {
	all := store.ListServices(tx)
	if len(all) == 0 {
		return nil
	}
	row := *all[r.IntN(len(all))]
	held := store.AddressesNaming(tx, row.UID)
	switch {
	case release && len(held) > 0:
		store.DeleteAddress(tx, held[0].Name, held[0].UID)
		return nil
	case row.LoadBalancer != store.LoadBalancerVPC:
		row.LoadBalancer = store.LoadBalancerVPC
		return store.PutService(tx, &row)
	case r.IntN(8) == 0:
		store.DeleteService(tx, row.Namespace, row.Name, row.UID)
		row.UID = r.serviceUID(row.Namespace, row.Name)
		return store.PutService(tx, &row)
	}
	vpc, ip := services.VPCOf(tx, &row, "default"), r.ip()
	if vpc == "" {
		return nil
	}
	name := vpc + "." + ip
	return store.PutAddress(tx, &store.Address{
		Meta: r.meta(name), Name: name, VPC: vpc, Subnet: "s1", IP: netip.MustParseAddr(ip),
		Holder: row.AsHolder(),
	})
}

// moveAddress gives an address of another VPC's to the same holder, instead of the
// one it has.
func (r *randomWorld) moveAddress(tx store.Tx, vpc, ip string) error {
	from := store.AddressByIP(tx, r.vpcName(), netip.MustParseAddr(ip))
	if from == nil {
		return nil
	}
	store.DeleteAddress(tx, from.Name, from.UID)
	row := *from
	row.Name, row.VPC = vpc+"."+ip, vpc
	row.UID = row.Name
	return store.PutAddress(tx, &row)
}

// changeNetwork changes a Network or a namespace.
func (r *randomWorld) changeNetwork(tx store.Tx, remove bool) error {
	namespace, name := r.of("default", "kube-system", "shop", "ns"), r.of("default", "shop")
	if r.IntN(3) == 0 {
		if remove {
			store.DeleteNamespace(tx, namespace, namespace)
			return nil
		}
		return store.PutNamespace(tx, &store.Namespace{Meta: store.Meta{UID: namespace}, Name: namespace, Tenant: r.of("t1", "t2", "ns:"+namespace)})
	}
	if remove {
		store.DeleteNetwork(tx, namespace, name, namespace+name)
		return nil
	}
	return store.PutNetwork(tx, &store.Network{
		Meta: r.meta(namespace + name), Namespace: namespace, Name: name, Tenant: r.of("t1", "t2"), Type: r.of("vpc", "vpc", "flat"), VPC: r.vpcName(),
	})
}

// changeGrant grants ports of nodes to tenants, or withdraws the grant.
func (r *randomWorld) changeGrant(tx store.Tx, remove bool) error {
	name := r.of("g1", "g2")
	if remove {
		external.DeleteHostAccess(tx, name, name)
		return nil
	}
	return external.PutHostAccess(tx, &external.HostAccess{
		Meta: r.meta(name), Name: name, AllowedTenants: []string{r.of("t1", "t2", "*")},
		Ports: []external.HostPortRange{{Protocol: r.of("", "TCP"), First: uint16(80 + r.IntN(2)), Last: []uint16{81, 30443, 30444}[r.IntN(3)]}},
	})
}

// changeExposed changes what addresses from outside go by, and what they lead to beside
// pods of VPCs.
func (r *randomWorld) changeExposed(tx store.Tx, remove bool) error {
	switch addr := netip.MustParseAddr(r.exposed()); r.IntN(6) {
	case 0:
		name := r.of("e1", "e2")
		if remove {
			external.DeletePool(tx, name, name)
			return nil
		}
		return external.PutPool(tx, &external.Pool{
			Meta: r.meta(name), Name: name, Ranges: []store.AddrRange{{First: ip("203.0.113.1"), Last: addr}},
			AllowedTenants: []string{r.of("t1", "t2", "*")}, ForExternalIPs: r.IntN(4) > 0, Ready: r.IntN(4) > 0,
		})
	case 1:
		if remove {
			external.DeleteAddress(tx, addr, addr.String())
			return nil
		}
		namespace, name := r.serviceName()
		return external.PutAddress(tx, &external.Address{
			Meta: r.meta(addr.String()), IP: addr, Pool: "e1", Node: r.of("", "node1", "node2"),
			Holder: store.Holder{Kind: store.HolderService, Namespace: namespace, Name: name, UID: r.serviceUID(namespace, name)},
		})
	case 2:
		uid := r.of("p0", "p1", "p2")
		if remove {
			store.DeleteHostPod(tx, uid)
			return nil
		}
		return store.PutHostPod(tx, &store.HostPod{
			Meta: store.Meta{UID: uid}, Namespace: r.of("default", "kube-system", "shop"), Name: uid, Node: r.of("node1", "node2"), Terminal: r.IntN(4) == 0,
		})
	case 3:
		return r.changeServiceRange(tx, remove)
	}
	all := store.ListServices(tx)
	if len(all) == 0 {
		return nil
	}
	row := *all[r.IntN(len(all))]
	row.ExternalIPs = ips(r.exposed(), r.exposed())[r.IntN(3):]
	row.SourceRanges = [][]netip.Prefix{nil, {}, prefixes("198.51.100.0/24")}[r.IntN(3)]
	row.LoadBalancer = r.of("", store.LoadBalancerExternal, store.LoadBalancerExternal)
	return store.PutService(tx, &row)
}

// changeBackendHere has a Service with a node port lead to a pod of its VPC that is here, or
// to one on this node's network.
func (r *randomWorld) changeBackendHere(tx store.Tx) error {
	rec := r.anyRecord()
	if rec == nil {
		return nil
	}
	all := slices.DeleteFunc(store.ListServices(tx), func(row *store.Service) bool { return services.VPCOf(tx, row, "default") != rec.VPC })
	if len(all) == 0 {
		return nil
	}
	row := *all[r.IntN(len(all))]
	row.Ports = []store.ServicePort{{Name: "p", Protocol: "TCP", Port: 443, NodePort: 30443}}
	endpoint := store.Endpoint{Ready: r.IntN(3) > 0, Terminating: true, Node: "node1", PodUID: rec.Pod.UID, Addresses: ips("192.0.2.1")}
	var err error
	if addr := netip.MustParseAddr(r.exposed()); r.IntN(2) == 0 {
		row.LoadBalancer = store.LoadBalancerExternal
		err = external.PutAddress(tx, &external.Address{Meta: r.meta(addr.String()), IP: addr, Pool: "e1", Holder: row.AsHolder()})
	}
	err = errors.Join(err, store.PutService(tx, &row))
	if r.IntN(4) == 0 {
		err = errors.Join(err, hostPod(rec.Pod.UID, row.Namespace, "node1", false)(tx))
	} else {
		addr := rec.Addrs[0].Addr()
		endpoint.Addresses = []netip.Addr{addr}
		name := rec.VPC + "." + addr.String()
		err = errors.Join(err, store.PutAddress(tx, &store.Address{
			Meta: r.meta(name), Name: name, VPC: rec.VPC, Subnet: "s1", IP: addr, MAC: "02:00:00:00:01:01", Node: "node1",
			Holder: store.Holder{Kind: store.HolderPod, Namespace: row.Namespace, Name: "p", UID: rec.Pod.UID},
		}))
	}
	return errors.Join(err, slice(row.Namespace, row.Name, row.Name, row.Ports, endpoint)(tx))
}

func (r *randomWorld) exposed() string { return fmt.Sprintf("203.0.113.%d", 1+r.IntN(8)) }

func (r *randomWorld) serviceName() (namespace, name string) {
	switch r.IntN(3) {
	case 0:
		return "kube-system", r.of("kube-dns", "other")
	case 1:
		return "shop", r.of("kube-dns", "other", "web")
	}
	return "default", r.of("kubernetes", "web")
}

// serviceUID returns the UID of a Service, or of an earlier or later Service of the name.
func (r *randomWorld) serviceUID(namespace, name string) string {
	return namespace + "/" + name + r.of("", "", "", " again")
}

func (r *randomWorld) changeService(tx store.Tx, remove bool) error {
	namespace, name := r.serviceName()
	ports := []store.ServicePort{{Name: "p", Protocol: r.of("TCP", "UDP"), Port: 443, NodePort: uint16(r.IntN(2)) * 30443}, {Name: "q", Protocol: "TCP", Port: 80}}[r.IntN(2):]
	switch r.IntN(4) {
	case 0:
		if remove {
			if held := store.GetService(tx, namespace, name); held != nil {
				store.DeleteService(tx, namespace, name, held.UID)
			}
			return nil
		}
		return store.PutService(tx, &store.Service{
			Meta: r.meta(r.serviceUID(namespace, name)), Namespace: namespace, Name: name, Network: r.of("", "", "shop"), Ports: ports,
			HealthCheckNodePort: []uint16{0, 0, 30444}[r.IntN(3)],
			ClusterIPs:          ips("10.96.0.1", "10.96.0.2", "10.96.0.3")[r.IntN(3):],
			Selectorless: r.IntN(
				2,
			) == 0, NodeLocal: r.IntN(3) == 0, ExternalNodeLocal: r.IntN(3) == 0, Affinity: time.Duration(r.IntN(2)) * time.Hour, LoadBalancer: r.of("", store.LoadBalancerVPC, store.LoadBalancerExternal),
		})
	case 1:
		if remove {
			store.DeleteSharedService(tx, name, name)
			return nil
		}
		return store.PutSharedService(tx, &store.SharedService{Meta: store.Meta{UID: name}, Name: name, ServiceNamespace: namespace, ServiceName: name})
	}
	of := r.of("kubernetes", "web", "kube-dns", "other")
	if remove {
		store.DeleteEndpointSlice(tx, namespace, name, name)
		return nil
	}
	ends := []store.Endpoint{
		ready(r.ip()),
		ready(r.of(r.ip(), "192.0.2.1", "203.0.113.7")),
		{Addresses: ips(r.of(r.ip(), "192.0.2.2", "10.97.0.1")), Terminating: true},
	}
	for i := range ends {
		ends[i].Node = r.of("node1", "node2", "node3", "")
		ends[i].PodUID = r.of("", "p0", "p1", "p2", "b1", "b1")
		ends[i].ForZones = [][]string{nil, {"a"}, {"b"}}[r.IntN(3)]
		ends[i].ForNodes = [][]string{nil, nil, {"node1"}, {"node2"}}[r.IntN(4)]
	}
	return slice(namespace, of, name, ports, ends[r.IntN(3):]...)(tx)
}
