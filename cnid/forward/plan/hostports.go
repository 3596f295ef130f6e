// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Listens reports whether a program on the node itself listens at a port of a
// protocol, by its IANA number, at an address or, with the zero value, at any.
type Listens func(protocol uint8, ip netip.Addr, port uint16) (bool, error)

// HostPortRace explains why rec, which is in the journal, can't have a port, or returns nil: of two
// ADDs at one time, which saw nothing of each other, the later gives way.
func HostPortRace(tx store.ReadTx, cfg Config, records []journal.Record, rec journal.Record) *Refusal {
	earlier := slices.DeleteFunc(slices.Clone(records), func(other journal.Record) bool { return other.Seq >= rec.Seq })
	for _, port := range rec.HostPorts {
		if holder, ok := holderOf(tx, cfg, port, earlier, rec.Pod.UID); ok {
			return leadsTo(port, holder)
		}
	}
	return nil
}

func leadsTo(port journal.HostPort, holder journal.Pod) *Refusal {
	return conflict(
		"hostPort %s already leads to pod %s on this node; choose another port, or wait until that pod is deleted",
		port,
		holder,
	)
}

// Refusal explains why a pod must not have an address or a port on this node, for a person. The
// reason and the message depend on the cause alone.
type Refusal struct {
	tenancy.Refusal
	// Lasting is true if no row of the store is the cause, so that no change of the store ends the
	// refusal.
	Lasting bool
}

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Refusal: tenancy.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

func conflict(format string, args ...any) *Refusal {
	return refuse(v1alpha1.HostPortConflictReason, format, args...)
}

func lasting(refusal *Refusal) *Refusal {
	refusal.Lasting = true
	return refusal
}

// HostPortConflict explains why a pod can't have the ports of the node that its record
// asks for, or nil.
func HostPortConflict(
	tx store.ReadTx,
	cfg Config,
	records []journal.Record,
	asking journal.Record,
	listens Listens,
) *Refusal {
	for _, port := range asking.HostPorts {
		if port.Protocol == "UDP" && port.HostPort == cfg.TunnelPort {
			return lasting(conflict("hostPort %s is the port of the tunnel between nodes; choose another one", port))
		}
		if port.Protocol == "TCP" && port.HostPort == cfg.ProxyHealthPort {
			return lasting(conflict("hostPort %s is the port of the node's health check for load balancers; choose another one", port))
		}
		if refusal := whyClosed(tx, cfg, asking, port); refusal != nil {
			return refusal
		}
		if holder, ok := holderOf(tx, cfg, port, records, asking.Pod.UID); ok {
			return lasting(leadsTo(port, holder))
		}
		listening, err := listens(hostProtocol(port.Protocol), port.HostIP, port.HostPort)
		if err != nil {
			return lasting(conflict("hostPort %s: can't find out whether the node itself listens there: %v", port, err))
		}
		if listening {
			return lasting(conflict("hostPort %s is taken: a program on node %s itself listens there; choose another one", port, cfg.Node))
		}
	}
	return nil
}

// whyClosed explains why a port of the node does not lead to the pod that requests it,
// independent of other pods: the pod's tenant has no grant, a Service has the port on
// every node, or the address is one that the node uses for itself. The end of a grant, or
// a later Service, closes the port of a running pod too.
func whyClosed(tx store.ReadTx, cfg Config, rec journal.Record, port journal.HostPort) *Refusal {
	namespace := store.GetNamespace(tx, rec.Pod.Namespace)
	if namespace == nil { // one without pods
		return refuse(v1alpha1.HostPortNotGrantedReason,
			"hostPort %s: namespace %s does not exist", port, rec.Pod.Namespace)
	}
	if !tenancy.HostPortGranted(tx, namespace.Tenant, port.Protocol, port.HostPort) {
		return refuse(v1alpha1.HostPortNotGrantedReason,
			"hostPort %s: no HostAccess grants it to tenant %q; ask the cluster's operator for one, or reach the pod by a Service",
			port,
			namespace.Tenant,
		)
	}
	if owner := tenancy.OwnerOfNodePort(tx, port.Protocol, port.HostPort); owner != nil {
		return conflict(
			"hostPort %s is a node port of %s, which has it on every node; choose another one",
			port,
			nameOf(owner, namespace.Tenant),
		)
	}
	if port.HostIP.IsLoopback() && !asksItself(tx, cfg, rec) {
		return conflict(
			"hostPort %s: packets that a node sends to itself go to no pod of a tenant, nor of a VPC other than the default one; leave hostIP out, or name another address",
			port,
		)
	}
	return nil
}

// nameOf returns the name of the Service that owns a port, as far as the tenant may know it.
func nameOf(owner *tenancy.NodePortOwner, tenant string) string {
	if owner.Tenant != tenant {
		return "another tenant's Service"
	}
	return "Service " + serviceplan.Ref{Namespace: owner.Namespace, Name: owner.Name}.String()
}

// asksItself reports whether what the node sends to itself may go to a pod: one of the
// default VPC whose namespace has no tenant's label.
func asksItself(tx store.ReadTx, cfg Config, rec journal.Record) bool {
	namespace := store.GetNamespace(tx, rec.Pod.Namespace)
	return rec.VPC == cfg.DefaultVPC && namespace != nil && !tenancy.Labelled(namespace.Tenant)
}

// holderOf finds the pod that has a port. An attachment that is being removed has it
// until its record is gone.
func holderOf(
	tx store.ReadTx,
	cfg Config,
	port journal.HostPort,
	records []journal.Record,
	uid string,
) (journal.Pod, bool) {
	for _, rec := range records {
		if rec.Pod.UID != uid && slices.ContainsFunc(rec.HostPorts, func(held journal.HostPort) bool {
			return port.Clashes(held) && whyClosed(tx, cfg, rec, held) == nil
		}) {
			return rec.Pod, true
		}
	}
	return journal.Pod{}, false
}

// HostPorts converts what a pod asks for.
func HostPorts(pod *store.Pod) []journal.HostPort {
	var list []journal.HostPort
	for _, port := range pod.HostPorts {
		list = append(list, journal.HostPort(port))
	}
	return list
}

// ClosedPort is a port of the node that does not lead to the pod which has asked for
// it, and runs.
type ClosedPort struct {
	Pod     journal.Pod
	Refusal tenancy.Refusal
}

// hostPorts plans the node's ports of all pods, and lists the closed ones. Of two ports that
// clash, the older pod has its port.
func (b *nodeBuilder) hostPorts() {
	b.plan.filter.HostPorts, b.plan.closed = nil, nil
	for at, rec := range b.live {
		for _, port := range rec.HostPorts {
			if refusal := whyClosed(b.tx, b.in.Config, rec, port); refusal != nil {
				b.plan.closed = append(b.plan.closed, ClosedPort{rec.Pod, refusal.Refusal})
				continue
			}
			if _, clash := holderOf(b.tx, b.in.Config, port, b.live[:at], rec.Pod.UID); !clash {
				b.plan.filter.HostPorts = append(b.plan.filter.HostPorts, b.opened(rec, port)...)
			}
		}
	}
}

// opened are the rules of one port, one per family.
func (b *nodeBuilder) opened(rec journal.Record, port journal.HostPort) []ruleset.HostPort {
	var list []ruleset.HostPort
	for _, shadow := range shadowsOf(rec) {
		if !port.HostIP.IsValid() || port.HostIP.Is4() == shadow.Is4() {
			list = append(list, ruleset.HostPort{
				Protocol: hostProtocol(
					port.Protocol,
				), HostIP: port.HostIP, HostPort: port.HostPort, Port: port.Port, Shadow: shadow,
				Own: asksItself(b.tx, b.in.Config, rec),
			})
		}
	}
	return list
}

// hostProtocol returns the number of a protocol that has ports.
func hostProtocol(name string) uint8 {
	if name == "SCTP" {
		return unix.IPPROTO_SCTP
	}
	return serviceplan.Protocol(name)
}

// onLoopback reports whether a port of the pod is open at the node's IPv4 loopback
// addresses.
func (b *nodeBuilder) onLoopback(rec journal.Record) bool {
	return asksItself(b.tx, b.in.Config, rec) && slices.ContainsFunc(rec.HostPorts, func(port journal.HostPort) bool {
		return port.HostIP == netip.Addr{} || port.HostIP.Is4() && port.HostIP.IsLoopback()
	})
}
