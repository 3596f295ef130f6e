// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// Limits of a verdict.
const (
	// MaxJudged is the number of backends that a verdict has at most. Beyond it the ready ones
	// count first, and the lowest addresses.
	MaxJudged = 16384
	// maxPorts is the number of ports of a Service that are served, in their order.
	maxPorts = 1000
	// maxExternalIPs is the number of external IPs of a Service that are served, in their order.
	maxExternalIPs = 256
	// maxRanges is the number of ranges of a load balancer's clients that count, in their order.
	maxRanges = 1000
	// longestUID is the longest UID in bytes. Slices may name longer ones.
	longestUID = 64
)

// Rules has the inputs of Judge beside the rows.
type Rules struct {
	// DefaultVPC is the name of the default VPC.
	DefaultVPC string
	Knowledge
	// Node is the node that judges, "" for the operator.
	Node string
}

// Knowledge answers questions about Services and VPCs that the rows of a caller decide.
type Knowledge interface {
	// Shared reports whether every VPC reaches a Service.
	Shared(service *store.Service) bool
	// Reserved reports whether nodes reserve the addresses of a Service's endpoints. They do so
	// for the API server's endpoints.
	Reserved(service *store.Service) bool
	// Partial reports whether the rows lack Addresses of a VPC. There an endpoint counts for
	// the node that its slice names, other than Rules.Node: that node chooses among its own
	// valid pods.
	Partial(vpc string) bool
}

// Judge returns the verdict about a Service in its VPC, or in no VPC. The Service need not have a
// virtual address: its node ports are ports of every node, whatever serves them.
func Judge(tx store.ReadTx, rules Rules, service *store.Service) *Verdict {
	return judgeIn(tx, rules, VPCOf(tx, service, rules.DefaultVPC), service)
}

// JudgeOutside returns the verdicts about a Service in networks outside of every VPC, by domain.
// It judges the networks where the Service has its ClusterIPs (see Outside).
func JudgeOutside(tx store.ReadTx, rules Rules, service *store.Service) (list []*Verdict) {
	for _, domain := range Outside(tx, service) {
		list = append(list, judgeIn(tx, rules, domain, service))
	}
	return list
}

// judgeIn judges a Service in a VPC or network, or with "" in none.
func judgeIn(tx store.ReadTx, rules Rules, vpc string, service *store.Service) *Verdict {
	v := &Verdict{ID: idOf(service, vpc), Head: headOf(tx, vpc, service)}
	j := newJudge(tx, rules, vpc, service)
	if !store.IsNetworkDomain(vpc) {
		v.Shared = rules.Shared(service)
		j.all = v.Shared || rules.Reserved(service)
		v.Exposed = j.all || IsExposed(service)
		v.ExternalLoadBalancer = service.LoadBalancer == store.LoadBalancerExternal
		if granted := ExternalIPs(tx, service); len(granted) > 0 {
			v.ExternalIPs = granted[:min(len(granted), maxExternalIPs)]
		}
	}
	if row := store.GetVPC(tx, vpc); row != nil {
		v.VPCUID = row.UID
		if v.Fronted() && row.VNI != 0 {
			v.InVPC = &scaled.VPC{VNI: row.VNI, Prefixes: row.Prefixes}
		}
	}
	v.Backends = j.backends()
	v.LeftOut = j.leftOut && vpc == rules.DefaultVPC && !v.Shared
	return v
}

func idOf(service *store.Service, vpc string) scaled.ID {
	return scaled.ID{Namespace: service.Namespace, Service: service.Name, ServiceUID: service.UID, VPC: vpc}
}

// headOf returns the Service's part of a verdict in a VPC or network.
func headOf(tx store.ReadTx, vpc string, service *store.Service) scaled.Head {
	tenant, _ := tenantOf(tx, service)
	head := scaled.Head{
		Created: service.Created, Tenant: tenant, ClusterIPs: service.ClusterIPs,
		HealthCheckNodePort: service.HealthCheckNodePort, Affinity: service.Affinity, NodeLocal: service.NodeLocal,
		ExternalNodeLocal: service.ExternalNodeLocal, SourceRanges: service.SourceRanges,
	}
	if vips := VIPs(tx, vpc, service); len(vips) > len(service.ClusterIPs) {
		head.LoadBalancerIPs = vips[len(service.ClusterIPs):]
	}
	head.SourceRanges = head.SourceRanges[:min(len(head.SourceRanges), maxRanges)]
	for _, port := range service.Ports[:min(len(service.Ports), maxPorts)] {
		port.Name = ""
		head.Ports = append(head.Ports, port)
	}
	if vpc != "" {
		usage := UsageOf(tx, vpc, service)
		head.UsedRows, head.UsedBackends = usage.Rows, usage.Backends
	}
	return head
}

// judge judges the endpoints of one Service in one VPC or network.
type judge struct {
	tx        store.ReadTx
	at        Site
	service   *store.Service
	reachable *reachability
	// all has every address in the result.
	all bool
	// partial and node come from Rules, inside are the ranges of a partial VPC.
	partial bool
	node    string
	inside  []netip.Prefix
	// leftOut reports that an endpoint for connections is not a backend in the VPC.
	leftOut bool
}

func newJudge(tx store.ReadTx, rules Rules, vpc string, service *store.Service) *judge {
	j := &judge{tx: tx, at: Site{VPC: vpc, DefaultVPC: rules.DefaultVPC}, service: service, node: rules.Node}
	j.reachable = reachabilityOf(tx, j.at)
	if j.partial = rules.Partial(vpc); j.partial {
		j.inside = rangesOf(tx, vpc)
	}
	return j
}

// backends returns the backends of all slices.
func (j *judge) backends() (list []scaled.Backend) {
	for _, slice := range store.EndpointSlicesByService(j.tx, j.service.Namespace, j.service.Name) {
		inside := j.at.VPC != "" && isIn(slice, j.at.VPC)
		targets := targetsIn(slice, j.service.Ports)
		if !j.all && (len(targets) == 0 || !inside) {
			continue
		}
		for i := range slice.Endpoints {
			endpoint := &slice.Endpoints[i]
			for _, ip := range endpoint.Addresses {
				if backend, ok := j.backend(endpoint, ip, inside, len(targets) > 0); ok {
					backend.Targets = targets
					list = append(list, backend)
				}
			}
		}
	}
	if list = sorted(list); len(list) > MaxJudged {
		slices.SortStableFunc(list, func(a, b scaled.Backend) int { return compareBools(a.Terminating, b.Terminating) })
		list = sorted(list[:MaxJudged])
	}
	return list
}

// backend judges one address of an endpoint. inside reports that the slice has addresses of the
// VPC or network, and serves that the slice has a port of the Service. For a Service that every
// VPC reaches, the result lists all addresses: nodes reserve the addresses of the API server,
// whether it is ready or not.
func (j *judge) backend(endpoint *store.Endpoint, ip netip.Addr, inside, serves bool) (b scaled.Backend, counts bool) {
	b = scaled.Backend{
		IP: ip, Node: endpoint.Node, PodUID: endpoint.PodUID, Terminating: !endpoint.Ready, ForNodes: endpoint.ForNodes,
		ForZones: endpoint.ForZones,
	}
	if len(b.PodUID) > longestUID {
		b.PodUID = ""
	}
	if inside && (endpoint.Ready || endpoint.Terminating) {
		if held := backendAt(j.tx, j.at.VPC, j.service, endpoint, ip); held != nil {
			b.Node, b.PodUID = held.Node, held.Holder.UID // whatever the slice says
			return b, true
		}
		b.Outside = j.reachable.reaches(j.service, endpoint, ip)
		b.OnHost = mayBeOnHost(j.tx, j.at, endpoint, ip)
		j.leftOut = j.leftOut || serves && !b.Outside
		if b.Outside || b.OnHost || j.isElsewhere(endpoint, ip) {
			return b, true
		}
	}
	b.Listed = true
	return b, j.all
}

// isElsewhere reports whether an endpoint names another node, and may count there as far as
// this one knows. An endpoint that a selector has found and that names no pod counts nowhere.
func (j *judge) isElsewhere(endpoint *store.Endpoint, ip netip.Addr) bool {
	return j.partial && endpoint.Node != j.node && endpoint.Node != "" &&
		(j.service.Selectorless || endpoint.PodUID != "") &&
		contains(j.inside, ip)
}

// targetsIn returns the ports of a Service that a slice serves.
func targetsIn(slice *store.EndpointSlice, ports []store.ServicePort) (targets []scaled.Target) {
	for _, port := range ports[:min(len(ports), maxPorts)] {
		if number := portOf(slice, port); number != 0 {
			targets = append(targets, scaled.Target{Protocol: port.Protocol, Port: port.Port, Target: number})
		}
	}
	return targets
}

// rangesOf returns the ranges of a VPC, none for a missing VPC.
func rangesOf(tx store.ReadTx, vpc string) []netip.Prefix {
	if row := store.GetVPC(tx, vpc); row != nil {
		return row.Prefixes
	}
	return nil
}
