// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/test/bench/nodes"
	"github.com/alioth-net/alioth/test/bench/packets"
	"github.com/alioth-net/alioth/test/cluster"
)

// Names of the reference paths.
const (
	underlayPath = "underlay"
	bridgePath   = "bridge+VXLAN"
	vethPath     = "veth pair"
)

// references are the paths without Alioth: two hosts on the nodes' underlay,
// which no packet filter of a node slows down, on each of them a "pod" behind a
// Linux bridge and a kernel VXLAN device, and two namespaces joined by a veth
// pair.
type references struct {
	*packets.Tool
	hosts []*cluster.Host
}

// Network namespaces of the references; they carry a prefix of their own.
const (
	nearPod, farPod   = "alioth-bench-near", "alioth-bench-far"
	vethFrom, vethTo  = "alioth-bench-v1", "alioth-bench-v2"
	referenceVNI      = "4242"
	referenceUDPPort  = "8472"
	firstHostNumber   = 211
	vethServerAddress = "10.98.0.2"
	farPodAddress     = "10.97.0.2"
)

func hostAddress(lab *cluster.Cluster, i int) netip.Addr {
	v4, _ := lab.Topology().Networks()
	octets := v4.Addr().As4()
	octets[3] = byte(firstHostNumber + i)
	return netip.AddrFrom4(octets)
}

// buildReferences makes everything, after removing the remainders of a broken run.
func buildReferences(ctx context.Context, lab *cluster.Cluster, tool string) (*references, error) {
	r := &references{Tool: packets.NewTool(tool)}
	r.removeNamespaces(ctx)
	for i := range 2 {
		host, err := lab.AddHost(fmt.Sprintf("bench-%d", i), hostAddress(lab, i))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("add an underlay host: %w", err), r.remove(ctx))
		}
		r.hosts = append(r.hosts, host)
	}
	steps := slices.Concat(
		r.bridgedPod(nearPod, 0, hostAddress(lab, 0), hostAddress(lab, 1)),
		r.bridgedPod(farPod, 1, hostAddress(lab, 1), hostAddress(lab, 0)),
		vethPair(),
	)
	for _, step := range steps {
		if err := nodes.RunStep(ctx, step); err != nil {
			return nil, errors.Join(err, r.remove(ctx))
		}
	}
	for _, ns := range []string{r.hosts[1].NetNS, "/run/netns/" + farPod, "/run/netns/" + vethTo} {
		if err := r.Serve(ns); err != nil {
			return nil, errors.Join(err, r.remove(ctx))
		}
	}
	return r, nil
}

// bridgedPod lists the commands that put a namespace behind a bridge with a
// VXLAN device on host i.
func (r *references) bridgedPod(name string, i int, own, other netip.Addr) []string {
	on := "nsenter --net=" + r.hosts[i].NetNS + " ip "
	in := "ip -n " + name + " "
	return []string{
		"ip netns add " + name,
		on + "link add bench-br type bridge",
		on + "link add bench-vx type vxlan id " + referenceVNI + " dstport " + referenceUDPPort + " local " + own.String() + " remote " + other.String() + " dev eth0",
		on + "link add bench-pod type veth peer name eth0 netns " + name,
		on + "link set bench-vx mtu " + nodes.PodMTU + " master bench-br up",
		on + "link set bench-pod mtu " + nodes.PodMTU + " master bench-br up",
		on + "link set bench-br up",
		in + "addr add 10.97.0." + fmt.Sprint(i+1) + "/24 dev eth0",
		in + "link set eth0 mtu " + nodes.PodMTU + " up",
		in + "link set lo up",
	}
}

func vethPair() []string {
	return []string{
		"ip netns add " + vethFrom, "ip netns add " + vethTo,
		"ip -n " + vethFrom + " link add eth0 type veth peer name eth0 netns " + vethTo,
		"ip -n " + vethFrom + " addr add 10.98.0.1/24 dev eth0", "ip -n " + vethFrom + " link set eth0 mtu " + nodes.PodMTU + " up",
		"ip -n " + vethTo + " addr add " + vethServerAddress + "/24 dev eth0", "ip -n " + vethTo + " link set eth0 mtu " + nodes.PodMTU + " up",
	}
}

// remove ends and removes everything, however little of it was made.
func (r *references) remove(ctx context.Context) error {
	errs := []error{r.Stop()}
	for _, host := range r.hosts {
		errs = append(errs, host.Remove())
	}
	r.removeNamespaces(context.WithoutCancel(ctx))
	return errors.Join(errs...)
}

// removeNamespaces removes the namespaces that exist, and ignores the absence of others.
func (r *references) removeNamespaces(ctx context.Context) {
	for _, name := range []string{nearPod, farPod, vethFrom, vethTo} {
		_ = nodes.RunStep(ctx, "ip netns delete "+name)
	}
}

// paths returns the paths that the references are measured on.
func (r *references) paths(lab *cluster.Cluster) (cross, same []packets.Path) {
	cross = []packets.Path{
		{Name: underlayPath, Run: r.In(r.hosts[0].NetNS), Address: hostAddress(lab, 1)},
		{Name: bridgePath, Run: r.In("/run/netns/" + nearPod), Address: netip.MustParseAddr(farPodAddress)},
	}
	same = []packets.Path{
		{Name: vethPath, Run: r.In("/run/netns/" + vethFrom), Address: netip.MustParseAddr(vethServerAddress)},
	}
	return cross, same
}
