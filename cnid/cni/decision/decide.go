// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// question is the input of a decision for a pod.
type question struct {
	cfg plan.Config
	pod journal.Pod
	node
	// kinds of new attachments, by the names that descriptions give them.
	kinds map[string]ifdriver.Kind
	// mtu of the network for pods in bytes, 0 before the node has been programmed.
	// problem is the error of programming, "" without one.
	mtu     int
	problem string
	// sharing comes from Config.
	sharing multinet.Sharing
}

// node has the facts about the node that a decision asks for.
type node interface {
	// parties returns the possible parties of a conflict with the pod.
	parties() parties
	// synced reports whether everything of a VPC or network has been read.
	synced(domain string) bool
	// namespaceSynced reports whether a namespace has been read that grants ports of the node.
	namespaceSynced(name string) bool
}

// answer is the decision for a pod, or the reason for its absence.
type answer struct {
	decisions []attachment.Decision
	// missing names the object or fact that the decision waits for, for users; "" with decisions.
	missing string
	// seen: the store has the pod. gone: the pod is ending. elsewhere: the missing
	// fact does not come from the store, so waiting for the store has no use.
	seen, gone, elsewhere bool
	// warning is the text of an event for the pod, refused or not, and reason the
	// event's reason.
	warning, reason string
}

func wait(format string, args ...any) answer {
	return answer{missing: fmt.Sprintf(format, args...), seen: true}
}

// decide takes the interfaces of a pod from its Address and AttachmentClaim objects, which only the
// operator writes. The condition of the pod shows that the operator has finished, and permits
// nothing alone.
func decide(tx store.ReadTx, q question) answer {
	pod := findPod(tx, q.pod)
	switch {
	case pod == nil:
		return answer{
			missing: "this node has not heard of the pod yet; if that lasts, its alioth-cnid can't reach the API server",
		}
	case pod.Deleting || pod.Terminal:
		return answer{seen: true, gone: true}
	case !allocation.IsOpen(pod) && pod.Reason != v1alpha1.AttachedReason && pod.Message != "":
		return wait("%s: %s", pod.Reason, pod.Message)
	case !allocation.IsOpen(pod):
		return wait("no addresses are assigned yet; is alioth-operator running?")
	}
	list, missing := allocation.Interfaces(tx, pod)
	if missing != "" {
		return wait("%s", missing)
	}
	return decideAll(tx, q, pod, list)
}

// place completes a decision by its place in the list of the pod, and by whether the pod's
// default route leads through it.
func place(d *attachment.Decision, i int, described netif.Interface, byDefault bool) {
	if d.Delegate != nil {
		d.Delegate.DefaultRoutes = defaultsOf(i, described)
	}
	if i > 0 {
		d.IfName = d.Attachment
	}
	if i > 0 && d.External {
		d.Mode = ifdriver.ModeDevice
	}
	if !byDefault && (d.InVPC() || i > 0) && !d.External {
		d.Gateways = nil
	}
}

// decideAll decides the attachments of a pod together: all of them, or none. The
// first is the one that the runtime requests. The pod's probes and ports of the node are
// decided with it.
func decideAll(tx store.ReadTx, q question, pod *store.Pod, list []netif.Interface) answer {
	var decisions []attachment.Decision
	byDefault := routed(list)
	for i, described := range list {
		kind, refusal := q.kindOf(described)
		if refusal != "" {
			return answer{missing: refusal, seen: true, elsewhere: true}
		}
		d, missing := decideOne(tx, q, pod, described)
		if missing != "" {
			return wait("%s", missing)
		}
		d.Kind, d.PodUID = kind, q.mirrored(pod)
		place(&d, i, described, i == byDefault)
		decisions = append(decisions, d)
	}
	separate(decisions)
	first := &decisions[0]
	if first.External { // probes and ports of the node are the other plugin's
		return answer{seen: true, decisions: decisions}
	}
	first.Probed, first.ProbeTimeout, first.HostPorts = pod.NetworkProbes, pod.ProbeTimeout, plan.HostPorts(pod)
	if missing := q.portsLack(first, pod.Namespace); missing != "" {
		return wait("%s", missing)
	}
	asking := journal.Record{
		Identity: journal.Identity{Pod: journal.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}},
		Binding:  first.Binding, Interface: first.Interface, HostPorts: first.HostPorts,
	}
	if no := conflict(tx, q.parties(), pod, asking); no != nil {
		return answer{seen: true, elsewhere: no.Lasting, warning: no.Message, reason: no.Reason, missing: no.Message}
	}
	return answer{seen: true, decisions: decisions}
}

// mirrored returns the UID of a pod in the API where the request has another, because the pod is
// static; "" elsewhere.
func (q question) mirrored(pod *store.Pod) string {
	if pod.StaticUID == "" || pod.StaticUID != q.pod.UID {
		return ""
	}
	return pod.UID
}

// portsLack returns why a pod whose first attachment is d can't get its ports of the node
// now, or "".
func (q question) portsLack(d *attachment.Decision, namespace string) string {
	switch {
	case len(d.HostPorts) == 0:
		return ""
	case !d.InVPC():
		return fmt.Sprintf(
			"hostPort %s: ports of nodes lead to pods in VPCs only, and the pod's first interface is in network %q outside of every VPC",
			d.HostPorts[0],
			d.Outside,
		)
	case !q.namespaceSynced(namespace):
		return fmt.Sprintf("hostPort %s: namespace %s has not been read from the API server yet", d.HostPorts[0], namespace)
	}
	return ""
}

// decideOne decides one attachment without its kind, or returns the missing part.
func decideOne(
	tx store.ReadTx,
	q question,
	pod *store.Pod,
	described netif.Interface,
) (d attachment.Decision, missing string) {
	if described.Outside != "" {
		if missing = unprepared(tx, pod, described); missing != "" {
			return d, missing
		}
		if missing = ungranted(tx, q.sharing, pod, described); missing != "" {
			return d, missing
		}
		if missing = unserved(tx, q, described); missing != "" {
			return d, missing
		}
		binding, iface, err := outside(described, pod.UID)
		if err != nil {
			missing = err.Error()
		}
		d = attachment.Decision{Attachment: described.Name, Binding: binding, Interface: iface}
		d.Delegate = delegateOf(described)
		return d, missing
	}
	rows, missing := completeSet(tx, pod.AsHolder(), q.cfg.Node, described.Name)
	if missing != "" {
		return d, missing
	}
	return assemble(tx, q, described, rows)
}

// findPod goes by UID. Without a UID, which no current runtime leaves out, it returns the newest
// pod of the name. For a static pod, the runtime has the UID that the kubelet computed. The
// mirror pod of that name has this UID in an annotation.
func findPod(tx store.ReadTx, pod journal.Pod) *store.Pod {
	if pod.UID == "" {
		return store.PodByName(tx, pod.Namespace, pod.Name)
	}
	row := store.GetPod(tx, pod.UID)
	if row == nil {
		if mirror := store.PodByName(tx, pod.Namespace, pod.Name); mirror != nil && mirror.StaticUID == pod.UID {
			return mirror
		}
	}
	if row == nil || row.Namespace != pod.Namespace || row.Name != pod.Name {
		return nil
	}
	return row
}

// completeSet returns the Addresses of one attachment of a pod of this node, IPv4 first,
// once every address of their set exists. Addresses that do not count for the pod are
// ignored.
func completeSet(tx store.ReadTx, pod store.Holder, node, attachment string) ([]*store.Address, string) {
	var rows []*store.Address
	for _, row := range store.AddressesOf(tx, pod, node) {
		if row.Attachment == attachment && !row.Deleting {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, "the pod's Address objects have not arrived yet"
	}
	slices.SortFunc(rows, func(a, b *store.Address) int { return a.IP.Compare(b.IP) })
	first := rows[0]
	for _, row := range rows {
		if row.Domain() != first.Domain() || row.MAC != first.MAC || row.External != first.External {
			return nil, fmt.Sprintf(
				"the pod's Address objects %s and %s disagree about VPC, MAC or driver",
				first.Name,
				row.Name,
			)
		}
		if !first.SameConfig(row) {
			return nil, fmt.Sprintf(
				"the operator is changing the configuration of the Address objects %s and %s",
				first.Name,
				row.Name,
			)
		}
	}
	for _, ip := range first.Set {
		if !slices.ContainsFunc(rows, func(row *store.Address) bool { return row.IP == ip }) {
			return nil, fmt.Sprintf("the Address object of %s has not arrived yet", ip)
		}
	}
	if len(rows) != len(first.Set) {
		return nil, "the pod has more Address objects than their set names"
	}
	return rows, ""
}

// assemble adds the properties from the VPC, its subnets and this node, or returns the missing
// part. An attachment that another CNI plugin makes needs nothing else of its VPC.
func assemble(
	tx store.ReadTx,
	q question,
	described netif.Interface,
	rows []*store.Address,
) (d attachment.Decision, missing string) {
	vpc, foreign := store.GetVPC(tx, rows[0].VPC), rows[0].External
	switch {
	case !foreign && !q.synced(rows[0].VPC):
		return d, unread(rows[0].VPC)
	case vpc == nil || vpc.VNI == 0:
		return d, fmt.Sprintf("VPC %s has no VNI yet; see `kubectl describe vpc %s`", rows[0].VPC, rows[0].VPC)
	case !foreign && q.mtu == 0:
		return d, fmt.Sprintf(
			"node %s is not programmed yet: %s",
			q.cfg.Node,
			cmp.Or(q.problem, "alioth-cnid is about to do so"),
		)
	}
	mac, err := journal.ParseMAC(rows[0].MAC)
	if err != nil {
		return d, fmt.Sprintf("Address object %s: %v", rows[0].Name, err)
	}
	d = attachment.Decision{
		Attachment: rows[0].Attachment,
		Binding:    journal.Binding{VPC: vpc.Name, VNI: vpc.VNI, External: foreign},
		Interface:  journal.Interface{MAC: mac, AltName: described.AltName},
	}
	if missing = locate(tx, rows, &d.Binding, &d.Interface); missing != "" || foreign {
		return d, missing
	}
	d.MTU = ifdriver.PodMTU(q.mtu, d.Addrs)
	if described.NoDefaultRoute {
		d.Routes = insideRoutes(tx, q.cfg, vpc, d)
	}
	return d, ""
}

func unread(vpc string) string {
	return fmt.Sprintf("what belongs to VPC %s is still being read from the API server", vpc)
}

// locate adds addresses, gateways and subnets, or returns the missing part.
func locate(
	tx store.ReadTx,
	rows []*store.Address,
	binding *journal.Binding,
	iface *journal.Interface,
) (missing string) {
	for _, row := range rows {
		prefix, gateway, missing := inSubnet(tx, row)
		if missing != "" {
			return missing
		}
		iface.Addrs, iface.Gateways = append(iface.Addrs, prefix), append(iface.Gateways, gateway)
		binding.Subnets = append(binding.Subnets, row.Subnet)
	}
	return ""
}

// inSubnet returns an address with its subnet's prefix length, and the
// subnet's gateway of its family.
func inSubnet(tx store.ReadTx, row *store.Address) (netip.Prefix, netip.Addr, string) {
	subnet := store.GetSubnet(tx, row.Subnet)
	if subnet == nil || subnet.VPC != row.VPC {
		return netip.Prefix{}, netip.Addr{}, fmt.Sprintf(
			"subnet %s of Address object %s does not exist in its VPC",
			row.Subnet,
			row.Name,
		)
	}
	inside := slices.IndexFunc(subnet.Prefixes, func(p netip.Prefix) bool { return p.Contains(row.IP) })
	gateway := slices.IndexFunc(subnet.Gateways, func(ip netip.Addr) bool { return ip.Is4() == row.IP.Is4() })
	if inside < 0 || gateway < 0 {
		return netip.Prefix{}, netip.Addr{}, fmt.Sprintf("subnet %s has no range or no gateway for %s", row.Subnet, row.IP)
	}
	return netip.PrefixFrom(row.IP, subnet.Prefixes[inside].Bits()), subnet.Gateways[gateway], ""
}
