// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
)

// MinKernel is the oldest version of Linux that is tested. test/vm compares it with its kernels.
const MinKernel = "6.1"

// Limits of the free space of the file system with the journal, in bytes.
const (
	leastSpace = 100 << 20
	someSpace  = 1 << 30
)

// Node has the facts of one node. The zero value of a field is the fact that nothing was
// found.
type Node struct {
	// Name is the name of the host; the caller replaces it by the name of the Node object.
	Name string `json:"name"`
	// Root reports whether the command had the rights to find the facts below that need them.
	Root bool `json:"root"`
	// Kernel is the release of the kernel, as uname -r prints it. It is "" if no fact was found.
	Kernel string `json:"kernel"`
	// Problems are the reasons why a part of the installation fails on this node. They come
	// from a rehearsal in a network namespace of its own.
	Problems []Problem `json:"problems,omitempty"`
	// Cgroup says why the root of the cgroup2 hierarchy is missing, and BPFFS why the bpf file
	// system is missing.
	Cgroup string `json:"cgroup,omitempty"`
	BPFFS  string `json:"bpffs,omitempty"`
	// Listening are the ports at which processes or the kernel listen.
	Listening []Listener `json:"listening,omitempty"`
	// Uplinks are the devices with addresses of the node.
	Uplinks []Uplink `json:"uplinks,omitempty"`
	// Configurations are the files in the runtime's folder of CNI configurations, and Plugins
	// the files in its folder of plugins.
	Configurations []string `json:"configurations,omitempty"`
	Plugins        []string `json:"plugins,omitempty"`
	// OtherFolders are folders of CNI configurations of other distributions that have files.
	OtherFolders []string `json:"otherFolders,omitempty"`
	// Programs are the BPF programs of others at hooks that Alioth uses.
	Programs []Program `json:"programs,omitempty"`
	// Blocks are sentences about packet filters that drop Alioth's packets, and Masquerading
	// the tables of others that translate sources.
	Blocks       []string `json:"blocks,omitempty"`
	Masquerading []string `json:"masquerading,omitempty"`
	// ProxyMode is the mode of a running kube-proxy, "" without one.
	ProxyMode string `json:"proxyMode,omitempty"`
	// FreeBytes is the free space for the journal; nil if it could not be read.
	FreeBytes *uint64 `json:"freeBytes,omitempty"`
	// Sockets are the container runtimes whose sockets are there.
	Sockets []string `json:"sockets,omitempty"`
	// Alioth lists remains of an installation of Alioth on the node, or its running parts.
	Alioth []string `json:"alioth,omitempty"`
	// Running is set if the daemon of Alioth answers at its socket: the ports are its own.
	Running bool `json:"running,omitempty"`
	// Unread are the facts that could not be found, with the cause.
	Unread []string `json:"unread,omitempty"`
}

// Problem is a part of the installation that fails.
type Problem struct {
	// Part is the part as a person knows it, Error the cause, Remedy the action.
	Part   string `json:"part"`
	Error  string `json:"error"`
	Remedy string `json:"remedy"`
	// Kind is set if the part is needed for this kind of interfaces only.
	Kind ifdriver.Kind `json:"kind,omitempty"`
}

// Listener is a socket that receives from every sender.
type Listener struct {
	Protocol string         `json:"protocol"`
	Address  netip.AddrPort `json:"address"`
}

// Uplink is an address of the node, and its device.
type Uplink struct {
	Address netip.Addr `json:"address"`
	Device  string     `json:"device"`
	// PodMTU is the size in bytes of the largest packet of a pod that fits through a tunnel
	// from this address.
	PodMTU int `json:"podMTU"`
	// Settings are the kernel settings of the device that Alioth does not expect, with their
	// values.
	Settings map[string]string `json:"settings,omitempty"`
}

// Program is a BPF program at a hook.
type Program struct {
	Name   string `json:"name"`
	Hook   string `json:"hook"`
	Device string `json:"device,omitempty"`
}

// JudgeNode returns the findings about one node, on which Alioth shall be installed with
// these values.
func JudgeNode(n Node, v Values) []Finding {
	l := &list{nodes: []string{n.Name}}
	for _, unread := range n.Unread {
		l.add(Warning, NotRead, "", "%s", unread)
	}
	if n.Kernel == "" && len(n.Unread) > 0 {
		return l.all // the zero values of the other fields do not count as facts
	}
	if !n.Root {
		l.add(Warning, Rights, "run the command as root for all checks",
			"the command has no root rights, so kernel features, BPF programs and packet filters were not checked")
	}
	n.judgeKernel(l, v)
	n.judgePorts(l, v)
	n.judgeMTU(l)
	n.judgeCNI(l, v)
	n.judgeOthers(l, v)
	n.judgeHost(l)
	return l.all
}

func (n Node) judgeKernel(l *list, v Values) {
	if kernel, err := utilversion.ParseGeneric(n.Kernel); err != nil {
		l.add(Warning, KernelVersion, "", "the version of the kernel %q can't be compared", n.Kernel)
	} else if kernel.LessThan(utilversion.MustParseGeneric(MinKernel)) {
		l.add(Blocking, KernelVersion, "boot Linux "+MinKernel+" or newer", "the kernel is %s", n.Kernel)
	}
	for _, p := range n.Problems {
		severity := Blocking
		switch {
		case p.Kind == "":
		case string(p.Kind) == v.Daemon.PodDevice:
		case v.MultiNetwork.Enabled:
			severity = Note
		default:
			continue
		}
		l.add(severity, KernelFeatures, p.Remedy, "%s: %s", p.Part, p.Error)
	}
	if n.Cgroup != "" {
		l.add(Blocking, CgroupV2, "", "%s", n.Cgroup)
	}
	if n.BPFFS != "" {
		l.add(Blocking, BPFFilesystem, "", "%s", n.BPFFS)
	}
}

func (n Node) judgePorts(l *list, v Values) {
	if n.Running {
		return
	}
	for _, want := range v.ports() {
		i := slices.IndexFunc(n.Listening, func(have Listener) bool {
			return have.Protocol == want.protocol && have.Address.Port() == want.number
		})
		if i >= 0 {
			l.add(
				Blocking,
				PortsInUse,
				"end the program that listens there, or set the chart value "+want.value+" to another port on all nodes",
				"another program listens at %s port %d (%s), which the chart value %s gives to Alioth",
				strings.ToUpper(want.protocol),
				want.number,
				n.Listening[i].Address,
				want.value,
			)
		}
	}
}

func (n Node) judgeMTU(l *list) {
	for _, u := range n.Uplinks {
		if u.PodMTU < ifdriver.MinMTU6 {
			l.add(
				Warning,
				NodeMTU,
				fmt.Sprintf("raise the MTU of the nodes' network by %d bytes", ifdriver.MinMTU6-u.PodMTU),
				"device %s carries packets of pods up to %d bytes, and IPv6 needs %d, so the tunnel fragments larger packets",
				u.Device,
				u.PodMTU,
				ifdriver.MinMTU6,
			)
		}
	}
}

func (n Node) judgeCNI(l *list, v Values) {
	for _, file := range n.Configurations {
		if file == cnidir.ConflistName || !cnidir.IsConfiguration(file) {
			continue
		}
		if file < cnidir.ConflistName {
			l.add(
				Blocking,
				CNIConfiguration,
				"remove it, or rename it so that its name sorts after "+cnidir.ConflistName,
				"%s sorts before %s, so the container runtime uses it for new pods",
				filepath.Join(v.Daemon.CNIConfDir, file),
				cnidir.ConflistName,
			)
			continue
		}
		l.add(
			Warning,
			CNIConfiguration,
			"remove it once the node has been drained: the runtime would use it again without "+cnidir.ConflistName,
			"%s is the configuration of another network; pods get addresses of Alioth as soon as %s is there",
			filepath.Join(v.Daemon.CNIConfDir, file),
			cnidir.ConflistName,
		)
	}
	for _, folder := range n.OtherFolders {
		l.add(
			Warning,
			CNIFolder,
			"set the chart values daemon.cniConfDir and daemon.cniBinDir to the folders of the container runtime",
			"%s has CNI configurations, and the chart's folder is %s",
			folder,
			v.Daemon.CNIConfDir,
		)
	}
	others := slices.DeleteFunc(
		slices.Clone(n.Plugins),
		func(name string) bool { return slices.Contains(cnidir.Programs(), name) },
	)
	if len(others) > 0 {
		l.add(
			Note,
			CNIConfiguration,
			"",
			"%s has the plugins %s, which Alioth leaves alone",
			v.Daemon.CNIBinDir,
			strings.Join(others, ", "),
		)
	}
}

func (n Node) judgeOthers(l *list, v Values) {
	for _, p := range n.Programs {
		where := p.Hook
		if p.Device != "" {
			where += " of device " + p.Device
		}
		l.add(
			Warning,
			ForeignPrograms,
			"end the program that attached it, if it is of a network that Alioth replaces",
			"a BPF program of another project (%s) is attached to %s, and sees packets or sockets before Alioth does",
			p.Name,
			where,
		)
	}
	for _, block := range n.Blocks {
		l.add(Blocking, PacketFilter, "", "%s", block)
	}
	if len(n.Masquerading) > 0 {
		l.add(
			Note,
			Masquerading,
			"",
			"other programs translate the sources of packets in %s; Alioth leaves these chains alone",
			strings.Join(n.Masquerading, ", "),
		)
	}
	if n.ProxyMode == "" {
		return
	}
	remedy := "leave it running, or remove it: Alioth serves ClusterIPs, NodePorts and external addresses by itself"
	if v.Daemon.ProxyHealth {
		l.add(Blocking, KubeProxy, "set the chart value daemon.proxyHealth to false while kube-proxy runs",
			"kube-proxy runs (mode %s) and serves its health pages at port %d", n.ProxyMode, proxyHealthPort)
		return
	}
	l.add(Note, KubeProxy, remedy, "kube-proxy runs (mode %s)", n.ProxyMode)
}

func (n Node) judgeHost(l *list) {
	for _, u := range n.Uplinks {
		for _, name := range slices.Sorted(maps.Keys(u.Settings)) {
			if path.Base(name) == "forwarding" {
				continue // the daemon turns it on
			}
			l.add(
				Warning,
				NodeSettings,
				"change it, for the reason in docs/security/node-settings.md",
				"the kernel setting %s is %s",
				name,
				u.Settings[name],
			)
		}
	}
	switch free := ptr.Deref(n.FreeBytes, someSpace); {
	case free < leastSpace:
		l.add(
			Blocking,
			DiskSpace,
			"free some space",
			"the file system of /var/lib has %d MiB left, and the journal needs %d",
			free>>20,
			leastSpace>>20,
		)
	case free < someSpace:
		l.add(Warning, DiskSpace, "free some space", "the file system of /var/lib has %d MiB left", free>>20)
	}
	if len(n.Sockets) == 0 {
		l.add(Warning, ContainerRuntime, "", "no socket of a known container runtime (containerd, CRI-O) was found")
	}
	if len(n.Alioth) > 0 {
		l.add(
			Note,
			Present,
			"upgrade it with helm upgrade, or remove it with helm uninstall",
			"Alioth is or was installed here: %s",
			strings.Join(n.Alioth, ", "),
		)
	}
}
