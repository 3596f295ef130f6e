// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// contents has the rows of a node's maps.
type contents struct {
	state.State
	Connections []connections.Connection
}

// words prints contents for people.
type words struct {
	contents
	// now is the time of the clock that connections use.
	now time.Duration
	// pods are the attachments of the node, by the index of their device, and
	// vpcs the names of their VPCs; empty while no daemon answers.
	pods map[int]nodestatus.Attachment
	vpcs map[uint32]string
	// outside are the attachments outside of every VPC, and networks the names of their
	// networks by number.
	outside  map[membership]nodestatus.Attachment
	networks map[uint32]string
}

// membership is an interface of a network namespace.
type membership struct {
	cookie uint64
	addrs  string
}

func membershipOf(cookie uint64, addrs []netip.Addr) membership {
	return membership{cookie, join(slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare))}
}

func newWords(c contents, now time.Duration, attachments []nodestatus.Attachment) words {
	w := words{
		contents: c, now: now, pods: map[int]nodestatus.Attachment{}, vpcs: map[uint32]string{},
		outside: map[membership]nodestatus.Attachment{}, networks: map[uint32]string{},
	}
	for _, rec := range attachments {
		if rec.HostIfName != "" && rec.InVPC() {
			w.pods[rec.Device.HostIfindex], w.vpcs[rec.VNI] = rec, rec.VPC
		}
		if !rec.InVPC() {
			var addrs []netip.Addr
			for _, prefix := range rec.Addrs {
				addrs = append(addrs, prefix.Addr())
			}
			w.outside[membershipOf(rec.Device.NetnsCookie, addrs)] = rec
		}
	}
	for _, n := range c.Namespaces {
		for _, m := range n.Memberships {
			if rec, ok := w.outside[membershipOf(n.Cookie, m.Addrs)]; ok && state.IsOutside(m.VNI) {
				w.networks[m.VNI] = rec.Outside
			}
		}
	}
	return w
}

func (w words) write(out io.Writer) error {
	for _, section := range []func(io.Writer){
		w.writeVPCs, w.writeInterfaces, w.writeAddresses, w.writeNodes, w.writeServices, w.writeNamespaces,
		w.writeConnections, w.writeClosed, w.writeProbes,
	} {
		table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		section(table)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// vpc names a VPC by its VNI, or a network outside of every VPC by its number.
func (w words) vpc(vni uint32) string {
	if state.IsOutside(vni) {
		return fmt.Sprintf("%s (number %d)", cmp.Or(w.networks[vni], "a network outside of VPCs"), vni)
	}
	if name := w.vpcs[vni]; name != "" {
		return fmt.Sprintf("%s (VNI %d)", name, vni)
	}
	return fmt.Sprintf("VNI %d", vni)
}

func (w words) device(ifindex int) string {
	if rec, ok := w.pods[ifindex]; ok {
		return fmt.Sprintf("pod %s %s (%s)", rec.Pod, rec.IfName, rec.HostIfName)
	}
	for _, i := range w.Interfaces {
		if i.Ifindex == ifindex && i.Node {
			return "this node"
		}
	}
	return fmt.Sprintf("device %d", ifindex)
}

func (w words) writeVPCs(out io.Writer) {
	fmt.Fprintf(out, "VPCs present on this node\nVPC\tRANGES\tSUBNETS\tEGRESS\tDEFAULT\n")
	for _, vpc := range w.VPCs {
		var subnets []string
		for _, subnet := range w.Subnets {
			if subnet.VNI == vpc.VNI {
				subnets = append(subnets, subnet.Prefix.String())
			}
		}
		egress := map[bool]string{true: "masqueraded", false: "none"}[vpc.EgressMasquerade]
		fmt.Fprintf(
			out,
			"%s\t%s\t%s\t%s\t%s\n",
			w.vpc(vpc.VNI),
			join(vpc.Prefixes),
			strings.Join(subnets, ","),
			egress,
			yes(vpc.Default),
		)
	}
}

func (w words) writeInterfaces(out io.Writer) {
	fmt.Fprintf(out, "\nInterfaces\nOF\tVPC\tADDRESSES\tMAC\tSHADOWS\tIDENTITY\tSENT\n")
	for _, i := range w.Interfaces {
		var shadows []netip.Addr
		for _, shadow := range []netip.Addr{i.Shadow4, i.Shadow6} {
			if shadow.IsValid() {
				shadows = append(shadows, shadow)
			}
		}
		fmt.Fprintf(
			out,
			"%s\t%s\t%s\t%s\t%s\t%d\t%s\n",
			w.device(i.Ifindex),
			w.vpc(i.VNI),
			join(i.Addrs),
			i.MAC,
			join(shadows),
			i.Identity,
			yes(i.SendsIdentity),
		)
	}
}

func (w words) writeAddresses(out io.Writer) {
	fmt.Fprintf(out, "\nLocations of addresses\nVPC\tADDRESS\tIS\n")
	for _, address := range w.Addresses {
		where := "a gateway, answered here"
		switch address.Kind {
		case state.Local:
			where = "here: " + w.device(address.Ifindex)
		case state.Remote:
			where = "on node " + address.Node.String()
		case state.HeldOutside:
			where = "at an interface of another CNI plugin"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", w.vpc(address.VNI), address.IP, where)
	}
}

func (w words) writeNodes(out io.Writer) {
	fmt.Fprintf(out, "\nNodes whose tunnel packets are accepted\n%s\n", join(w.Nodes))
	fmt.Fprintf(out, "\nAddresses of this node\n%s\n", join(w.Own))
	if len(w.Announced) > 0 {
		fmt.Fprintf(out, "\nExternal addresses that this node announces\n%s\n", join(w.Announced))
	}
}

func (w words) writeServices(out io.Writer) {
	fmt.Fprintf(out, "\nServices\nIN\tSERVICE\tBACKENDS\tAFFINITY\n")
	for _, service := range w.Services {
		var backends []string
		for _, backend := range service.Backends {
			text := netip.AddrPortFrom(backend.IP, backend.Port).String()
			if backend.Outside {
				text += " (outside)"
			}
			backends = append(backends, text)
		}
		if len(backends) == 0 {
			backends = []string{"none is ready"}
		}
		if service.LeftOut {
			backends = []string{"none, endpoints are left out"}
		}
		where, affinity := "every VPC", "-"
		if service.VNI != 0 {
			where = w.vpc(service.VNI)
		}
		if service.Affinity > 0 {
			affinity = service.Affinity.String()
		}
		fmt.Fprintf(
			out,
			"%s\t%s %s\t%s\t%s\n",
			where,
			nodestatus.Protocol(service.Proto),
			netip.AddrPortFrom(service.VIP, service.Port),
			strings.Join(backends, ","),
			affinity,
		)
	}
}

// holder names the interface of a membership.
func (w words) holder(n state.Namespace, m state.Membership) string {
	if rec, ok := w.outside[membershipOf(n.Cookie, m.Addrs)]; ok && state.IsOutside(m.VNI) {
		return fmt.Sprintf("pod %s %s", rec.Pod, rec.IfName)
	}
	return w.device(m.Ifindex)
}

func (w words) writeNamespaces(out io.Writer) {
	fmt.Fprintf(out, "\nNetwork namespaces\nOF\tCOOKIE\tVPC\tADDRESSES\tMAY REACH SHARED SERVICES\n")
	for _, n := range w.Namespaces {
		for _, m := range n.Memberships {
			fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\n", w.holder(n, m), n.Cookie, w.vpc(m.VNI), join(m.Addrs), yes(n.Shared))
		}
	}
}

func (w words) writeConnections(out io.Writer) {
	fmt.Fprintf(out, "\nConnections to Services\nOF\tFROM\tTO\tBACKEND\tSTATE\tIDLE FOR\n")
	for _, c := range w.Connections {
		state := "open"
		switch {
		case c.Closed:
			state = "closed"
		case !c.Answered:
			state = "not answered"
		}
		fmt.Fprintf(
			out,
			"%s\t%s %s\t%s\t%s\t%s\t%s\n",
			w.device(c.Ifindex),
			nodestatus.Protocol(c.Proto),
			c.Pod,
			c.Service,
			c.Backend,
			state,
			max(0, w.now-c.LastSeen).Truncate(time.Second),
		)
	}
}

func (w words) writeClosed(out io.Writer) {
	fmt.Fprintf(out, "\nRanges closed to egress, and exceptions\nFOR\tRANGE\tIS\n")
	for _, closed := range w.Closed {
		whom := "every VPC"
		if closed.VNI != 0 {
			whom = w.vpc(closed.VNI)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", whom, closed.Prefix, closed.Class)
	}
}

func (w words) writeProbes(out io.Writer) {
	fmt.Fprintf(out, "\nConnections of the kubelet that are redirected to shadow addresses\nTO\tREDIRECTED TO\n")
	for _, probe := range w.Probes {
		fmt.Fprintf(out, "%s, probes\t%s\n", probe.IP, nobodyOr(probe.Shadow))
	}
	for _, hook := range w.Hooks {
		fmt.Fprintf(out, "%s, lifecycle hooks\t%s\n", hook.IP, nobodyOr(hook.Shadow))
	}
}

func nobodyOr(shadow netip.Addr) string {
	if !shadow.IsValid() {
		return "refused"
	}
	return shadow.String()
}

func join[T fmt.Stringer](list []T) string {
	var texts []string
	for _, item := range list {
		texts = append(texts, item.String())
	}
	return strings.Join(texts, ",")
}

func yes(is bool) string { return map[bool]string{true: "yes", false: ""}[is] }
