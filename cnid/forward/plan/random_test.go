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
