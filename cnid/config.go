// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cluster/subscriptions"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/forward/hostlink"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/system/podresources"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Config is the daemon's command line, and the inputs from its program.
type Config struct {
	// NodeName is the name of this node's Node object.
	NodeName string
	// Kubeconfig is a file with address and credentials of the API server; "" inside a pod.
	// APIServerHost and APIServerPort replace the values of the environment or the file; "" and 0
	// leave them.
	Kubeconfig    string
	APIServerHost string
	APIServerPort int

	// StateDir outlives a reboot, RunDir need not.
	StateDir, RunDir string
	// BPFDir lies on a bpf file system. CgroupRoot is the root of the cgroup2
	// hierarchy; "" looks for it.
	BPFDir, CgroupRoot string
	// CNIBinDir and CNIConfDir are the container runtime's.
	CNIBinDir, CNIConfDir string

	DefaultVPC    string
	ServiceRanges []netip.Prefix
	// Shadows are the ranges of shadow addresses, at most one per family.
	Shadows []netip.Prefix
	// SharedServices are the Services that every VPC reaches, beside the Services that
	// SharedService objects name.
	SharedServices []serviceplan.Ref
	// Infrastructure are ranges where the kubelet may have business of its own.
	Infrastructure []netip.Prefix
	// Metadata are the addresses of cloud metadata services.
	Metadata   []netip.Addr
	TunnelPort uint16
	// HostLinkPort is the UDP port of VXLAN links outside of every VPC.
	HostLinkPort uint16
	// VXLANDevices are the devices of the nodes that may have such links without an
	// InternalIP of the Node.
	VXLANDevices []string
	// NodePorts serves NodePorts of Services, and addresses from outside that lead
	// to them. False where another program does, such as kube-proxy.
	NodePorts bool
	// ScaledEndpoints follows the operator's verdicts about Services, instead of the Services
	// themselves. The operator must write them.
	ScaledEndpoints bool
	// FlowsPerShadow and ConnectionsPerInterface bound one pod's flows in the host's connection
	// tracking and in the datapath's.
	FlowsPerShadow, ConnectionsPerInterface uint32

	// Delegation runs other CNI plugins of the node for interfaces of pods, and
	// DelegationWait limits the plugins of one interface.
	Delegation     bool
	DelegationWait time.Duration
	// GlobalNamespaces are those whose NetworkAttachmentDefinitions pods of all namespaces may
	// select.
	GlobalNamespaces []string
	// DelegationHost is the process that has the node's files, for NodeNetworkState too:
	// HostInit or HostParent.
	DelegationHost string

	// SRIOV attaches pods to virtual functions of devices that the kubelet has allocated,
	// which serves its API of pod resources at the socket PodResources.
	SRIOV        bool
	PodResources string
	// UnderlayAttachments permits interfaces on the network of the nodes whose packets no
	// program of the node sees, such as virtual functions without a VLAN.
	UnderlayAttachments bool

	// NodeNetworkState keeps the NodeNetworkState of the node, and leads the network of the node
	// to it. NetworkPolicyMode is the place that puts policies together: PoliciesDistributed or
	// PoliciesCentralized.
	NodeNetworkState  bool
	NetworkPolicyMode string

	// NodeIPAM serves addresses to other CNI plugins.
	NodeIPAM NodeIPAM

	// PodDevice selects the kind of new pods' devices; running pods keep theirs.
	PodDevice PodDevice

	// ReconcileEvery is the interval between the daemon's looks for attachments whose sandbox
	// went away without a DEL.
	ReconcileEvery time.Duration
	// RecheckEvery is the interval between comparisons of everything in the kernel with the
	// wanted state, with or without a notification of a change; at most DefaultRecheck.
	RecheckEvery time.Duration
	// ReviewEvery is the interval between readings of the objects that the daemon alone writes about
	// its node: somebody may have deleted or changed them.
	ReviewEvery time.Duration
	// Wait is the time that an ADD may wait for the control plane.
	Wait time.Duration
	// HealthAddr and MetricsAddr are host:port, and differ; "" serves nothing. Metrics are
	// served with TLS, to users that the API server authorizes.
	HealthAddr, MetricsAddr string
	// ProxyHealthAddr is the address for load balancers outside the cluster. They check there
	// whether the node serves Services, as they check kube-proxy; "" serves nothing.
	ProxyHealthAddr string
	// Guard authorizes readers of the metrics. Without it the daemon serves no metrics at
	// MetricsAddr.
	Guard Guard `json:"-"`
}

// Processes that see the files of the node (Config.DelegationHost).
const (
	// HostInit is the first process of the PID namespace.
	HostInit = "init"
	// HostParent is the daemon's parent, which is the runtime's process for its
	// container. It is for nodes that share a PID namespace with others.
	HostParent = "parent"
)

// Where the policies about the network of nodes are put together (Config.NetworkPolicyMode).
const (
	// PoliciesDistributed: the daemon of each node does so for its own node.
	PoliciesDistributed = "distributed"
	// PoliciesCentralized: the operator does so for all nodes.
	PoliciesCentralized = "centralized"
)

// DefaultRecheck bounds the time until the daemon notices a change by hand that the kernel does
// not notify.
const DefaultRecheck = 30 * time.Second

// DefaultConfig returns the configuration of a node whose command line is empty.
func DefaultConfig() Config {
	return Config{
		StateDir: "/var/lib/alioth", RunDir: filepath.Dir(cniapi.DefaultSocket),
		BPFDir: programs.DefaultPinDir, CNIBinDir: "/opt/cni/bin", CNIConfDir: "/etc/cni/net.d",
		DefaultVPC: v1alpha1.DefaultVPCName,
		Shadows:    []netip.Prefix{netip.MustParsePrefix(v1alpha1.ShadowCIDR4), netip.MustParsePrefix(v1alpha1.ShadowCIDR6)},
		SharedServices: []serviceplan.Ref{
			apiServerService(), {Namespace: "kube-system", Name: "kube-dns"},
		},
		Metadata:       defaultMetadata(),
		TunnelPort:     programs.DefaultTunnelPort,
		HostLinkPort:   hostlink.DefaultPort,
		FlowsPerShadow: 4096, ConnectionsPerInterface: programs.DefaultConnectionsPerInterface,
		NodePorts:         true,
		PodDevice:         PodDevice(drivers.DefaultPair),
		DelegationWait:    delegate.DefaultWait,
		DelegationHost:    HostInit,
		NetworkPolicyMode: PoliciesDistributed,
		PodResources:      podresources.DefaultSocket,
		NodeIPAM:          NodeIPAM{Groups: slices.Clone(ipamapi.Groups)},
		RecheckEvery:      DefaultRecheck, ReconcileEvery: time.Minute, ReviewEvery: time.Minute,
		Wait:       60 * time.Second,
		HealthAddr: "127.0.0.1:9471", MetricsAddr: "127.0.0.1:9472",
	}
}

// defaultMetadata returns the metadata services of AWS, Azure, Google Cloud and
// many others, of AWS and Google Cloud over IPv6, and of Alibaba Cloud.
func defaultMetadata() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254"),
		netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("100.100.100.200"),
	}
}

func apiServerService() serviceplan.Ref {
	return serviceplan.Ref{Namespace: "default", Name: "kubernetes"}
}

// check returns the first setting that a person must correct, as an error.
func (c Config) check() error {
	if c.NodeName == "" {
		return errors.New("no node name: give --node-name or set NODE_NAME")
	}
	if len(c.NodeName) > v1alpha1.MaxNodeName {
		return fmt.Errorf(
			"the node's name has %d characters and Alioth serves %d at most, because %q and the name are the name of an object; give the node a shorter one",
			len(c.NodeName),
			v1alpha1.MaxNodeName,
			v1alpha1.NodeRollCallPrefix,
		)
	}
	if err := c.checkShadows(); err != nil {
		return err
	}
	if c.RecheckEvery <= 0 || c.RecheckEvery > DefaultRecheck {
		return fmt.Errorf("time between rechecks: want more than 0 and at most %s, got %s", DefaultRecheck, c.RecheckEvery)
	}
	if c.ReviewEvery <= 0 {
		return fmt.Errorf("time between reviews of the node's objects: want more than 0, got %s", c.ReviewEvery)
	}
	if c.TunnelPort == 0 {
		return errors.New("--tunnel-port: want 1 to 65535")
	}
	if c.HostLinkPort == 0 || c.HostLinkPort == c.TunnelPort {
		return fmt.Errorf(
			"--host-link-vxlan-port: want 1 to 65535, and not %d, the port of the tunnel, got %d",
			c.TunnelPort,
			c.HostLinkPort,
		)
	}
	if err := c.checkServers(); err != nil {
		return err
	}
	if !slices.Contains(PodDevices(), c.PodDevice) {
		return fmt.Errorf("--pod-device: want one of %v, got %q", PodDevices(), c.PodDevice)
	}
	if c.NetworkPolicyMode != PoliciesDistributed && c.NetworkPolicyMode != PoliciesCentralized {
		return fmt.Errorf(
			"--node-network-policy-mode: want %s or %s, got %q",
			PoliciesDistributed,
			PoliciesCentralized,
			c.NetworkPolicyMode,
		)
	}
	if err := c.NodeIPAM.check(); err != nil {
		return err
	}
	return c.checkDelegation()
}

func (c Config) checkServers() error {
	if c.MetricsAddr != "" && c.MetricsAddr == c.HealthAddr {
		return fmt.Errorf(
			"--health-addr and --metrics-addr are both %s; metrics need an address of their own, because they are served with TLS",
			c.MetricsAddr,
		)
	}
	_, err := c.proxyHealthPort()
	return err
}

func (c Config) checkDelegation() error {
	if err := multinet.CheckNamespaces(c.GlobalNamespaces); err != nil {
		return fmt.Errorf("--global-namespaces: %w", err)
	}
	if c.DelegationWait <= 0 || c.DelegationWait > attachment.DefaultEstablishWait {
		return fmt.Errorf(
			"--delegation-timeout: want more than 0 and at most %s, got %s",
			attachment.DefaultEstablishWait,
			c.DelegationWait,
		)
	}
	if c.DelegationHost != HostInit && c.DelegationHost != HostParent {
		return fmt.Errorf("--delegation-host: want %s or %s, got %q", HostInit, HostParent, c.DelegationHost)
	}
	return nil
}

func (c Config) checkShadows() error {
	families := map[bool]bool{}
	for _, shadow := range c.Shadows {
		if shadow != shadow.Masked() || families[shadow.Addr().Is4()] {
			return fmt.Errorf("--shadow-cidrs: want at most one canonical range per family, got %v", c.Shadows)
		}
		families[shadow.Addr().Is4()] = true
	}
	if len(c.Shadows) == 0 {
		return errors.New("--shadow-cidrs: want at least one range")
	}
	return nil
}

// shadow returns the shadow range of a family, or the zero value.
func (c Config) shadow(family ipfamily.Family) netip.Prefix {
	for _, prefix := range c.Shadows {
		if family.Has(prefix.Addr()) {
			return prefix
		}
	}
	return netip.Prefix{}
}

func (c Config) socket() string { return filepath.Join(c.RunDir, filepath.Base(cniapi.DefaultSocket)) }

func (c Config) journalFile() string { return filepath.Join(c.StateDir, "journal.log") }

// interfacesDir returns the folder of the drivers' notes about interfaces. Like the interfaces, the
// notes end with a boot.
func (c Config) interfacesDir() string { return filepath.Join(c.RunDir, "interfaces") }

// delegatesDir returns the folder with the configurations of other CNI plugins' interfaces.
func (c Config) delegatesDir() string { return filepath.Join(c.StateDir, "delegates") }

// networkStateDir returns the folder with the transactions of the node's network, and with its
// committed state. The path is the same on the node.
func (c Config) networkStateDir() string { return filepath.Join(c.StateDir, "nmstate") }

func (c Config) settingsFile() string { return filepath.Join(c.StateDir, "sysctls.json") }

// Plan returns the part of the configuration that plans go by, with these kinds of attachments.
// It does not resolve names: package apihost resolves the name of the API server.
func (c Config) Plan(kinds ifdriver.Catalog) plan.Config {
	cfg := plan.Config{
		Node: c.NodeName, DefaultVPC: c.DefaultVPC, Shadows: c.Shadows, ServiceRanges: c.ServiceRanges,
		SharedServices: c.SharedServices, APIServer: apiServerService(), Metadata: c.Metadata,
		Infrastructure: c.Infrastructure,
		TunnelPort:     c.TunnelPort, FlowsPerShadow: c.FlowsPerShadow, NodePorts: c.NodePorts,
		ScaledEndpoints: c.ScaledEndpoints, Kinds: kinds,
	}
	cfg.ProxyHealthPort, _ = c.proxyHealthPort() // checked before
	if host, err := netip.ParseAddr(c.APIServerHost); err == nil {
		cfg.Reserved = append(cfg.Reserved, host.Unmap())
	}
	return cfg
}

// proxyHealthPort returns the port of ProxyHealthAddr, 0 if it is "".
func (c Config) proxyHealthPort() (uint16, error) {
	if c.ProxyHealthAddr == "" {
		return 0, nil
	}
	_, text, err := net.SplitHostPort(c.ProxyHealthAddr)
	if err != nil {
		return 0, fmt.Errorf("--proxy-health-addr: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("--proxy-health-addr: want a port from 1 to 65535, got %q", text)
	}
	return uint16(port), nil
}

// hostPort returns host and port as one address, or "" when the host is not
// set.
func (c Config) hostPort() string {
	if c.APIServerHost == "" {
		return ""
	}
	port := c.APIServerPort
	if port == 0 {
		port = 443
	}
	return net.JoinHostPort(c.APIServerHost, strconv.Itoa(port))
}

// onNode returns the objects that `uninstall` removes.
func (c Config) onNode() install.Node {
	return install.Node{
		CNIBinDir: c.CNIBinDir, CNIConfDir: c.CNIConfDir,
		StateDir: c.StateDir, Journal: c.journalFile(), Settings: c.settingsFile(), Socket: c.socket(),
		Interfaces: c.interfacesDir(), NodeIPAM: c.nodeIPAMFiles(), Delegates: c.delegatesDir(),
		NetworkStates: c.networkStateDir(), NetworkStatesKept: c.networkStatesKept,
		BPFDir: c.BPFDir, CgroupRoot: c.CgroupRoot, Shadows: c.Shadows, Wait: c.Wait,
	}
}

// Uninstall removes Alioth from this node, see install.Uninstall.
func Uninstall(ctx context.Context, cfg Config, log *slog.Logger) error {
	return install.Uninstall(ctx, cfg.onNode(), log)
}

// Kinds returns the kinds whose objects the daemon follows.
func (c Config) Kinds() []*descriptor.Kind {
	without := nmstateapi.All()
	if c.NodeNetworkState {
		// The operator needs the policies where the daemon does not.
		without = slices.DeleteFunc(without, func(kind *descriptor.Kind) bool {
			return kind == nmstateapi.NodeNetworkState.Kind || c.NetworkPolicyMode == PoliciesDistributed
		})
	}
	all := kinds.All()
	if c.ScaledEndpoints {
		all = subscriptions.WithVerdicts(all)
	} else {
		without = append(without, vpcs.ScaledEndpoint.Kind)
	}
	return slices.DeleteFunc(all, func(kind *descriptor.Kind) bool { return slices.Contains(without, kind) })
}
