// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cmd/process/garbage"
	"github.com/alioth-net/alioth/cmd/process/guard"
	"github.com/alioth-net/alioth/cnid"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/lifecycle/stateformat"
	"github.com/alioth-net/alioth/cnid/nodeipam/deviceplugin"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
)

// options are the command line; text values are parsed in config.
type options struct {
	cnid.Config
	serviceCIDRs, shadowCIDRs, sharedServices, metadata, infrastructure []string
	nodeIPAMRanges                                                      []string
	logLevel, logFormat                                                 string
}

func newCommand() *cobra.Command {
	o := &options{Config: cnid.DefaultConfig()}
	root := &cobra.Command{
		Use:     "alioth-cnid",
		Short:   "Serve the pods of one node: CNI, datapath, probes",
		Version: version.Get().String(),
		Args:    cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := o.prepare()
			if err != nil {
				return err
			}
			garbage.SaveMemory()
			return cnid.Run(cmd.Context(), cfg, log)
		},
	}
	o.addFlags(root)
	root.AddCommand(installCommand(o), uninstallCommand(o), execOnHostCommand(), guardCommand(o))
	return root
}

func installCommand(o *options) *cobra.Command {
	binary := "/usr/local/bin/alioth"
	cmd := &cobra.Command{
		Use:   "install-cni",
		Short: "Copy the CNI plugin into the container runtime's directory and exit",
		Long: `Copy the CNI plugin into the container runtime's directory and exit. The command
refuses if a newer release has written the state of the node, because the daemon
of this release would refuse it too, and calls of an older plugin reach nobody.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := stateformat.Check(o.StateDir); err != nil {
				return err
			}
			return install.Plugin(binary, o.CNIBinDir)
		},
	}
	cmd.Flags().StringVar(&binary, "plugin", binary, "the plugin binary to copy")
	return cmd
}

func uninstallCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Alioth from this node, including the interfaces of running pods",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := o.prepare()
			if err != nil {
				return err
			}
			return cnid.Uninstall(cmd.Context(), cfg, log)
		},
	}
}

// execOnHostCommand is for the daemon itself, which starts CNI plugins of others by it.
func execOnHostCommand() *cobra.Command {
	return &cobra.Command{
		Use:    host.Subcommand + " -- namespace program",
		Short:  "Replace this process by a program in a mount namespace",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE:   func(_ *cobra.Command, args []string) error { return host.Exec(args[0], args[1:], os.Environ()) },
	}
}

// guardCommand is for the daemon itself: the second process of each change of the node's
// network, which undoes the change if the daemon ends.
func guardCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:    cnid.GuardSubcommand + " transaction",
		Short:  "Undo a change of the node's network unless it is committed in time",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, log, err := o.prepare()
			if err != nil {
				return err
			}
			// A signal to the daemon must not end it.
			return cnid.GuardNetwork(context.WithoutCancel(cmd.Context()), cfg, args[0], log)
		},
	}
}

func (o *options) addFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(
		&o.NodeName,
		"node-name",
		os.Getenv("NODE_NAME"),
		"name of this node's Node object (environment: NODE_NAME)",
	)
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file; needed only outside of a pod")
	flags.StringVar(&o.APIServerHost, "api-server-host", "", "host of the API server; default: the environment's")
	flags.IntVar(&o.APIServerPort, "api-server-port", 0, "port of the API server; default: 443 if the host is set")
	flags.StringVar(&o.StateDir, "state-dir", o.StateDir, "directory of the journal; must survive reboots")
	flags.StringVar(&o.RunDir, "run-dir", o.RunDir, "directory of the unix socket for the CNI plugin")
	flags.StringVar(&o.BPFDir, "bpf-dir", o.BPFDir, "directory for pinned maps and programs, on a bpf file system")
	flags.StringVar(&o.CgroupRoot, "cgroup-root", "", "root of the cgroup2 hierarchy; detected if empty")
	flags.StringVar(&o.CNIBinDir, "cni-bin-dir", o.CNIBinDir, "the container runtime's directory of CNI plugins")
	flags.StringVar(&o.CNIConfDir, "cni-conf-dir", o.CNIConfDir, "the container runtime's directory of CNI configurations")
	flags.StringVar(&o.DefaultVPC, "default-vpc", o.DefaultVPC, "name of the default VPC")
	flags.StringSliceVar(&o.serviceCIDRs, "service-cidrs", nil, "the cluster's service ranges, closed to pods' egress")
	flags.StringSliceVar(
		&o.shadowCIDRs,
		"shadow-cidrs",
		texts(o.Shadows),
		"ranges of shadow addresses, at most one per family",
	)
	flags.StringSliceVar(
		&o.infrastructure,
		"infrastructure-cidrs",
		nil,
		"ranges to which the kubelet itself may connect; pods with an IP in one get no network probes or hooks",
	)
	flags.StringSliceVar(
		&o.sharedServices,
		"shared-services",
		texts(o.SharedServices),
		"Services (namespace/name) that every VPC reaches, in addition to SharedService objects",
	)
	flags.StringSliceVar(
		&o.metadata,
		"metadata-addresses",
		texts(o.Metadata),
		"addresses of cloud metadata services; closed unless spec.egressAllow of the VPC has exactly that address",
	)
	flags.Uint16Var(&o.TunnelPort, "tunnel-port", o.TunnelPort, "UDP port of VXLAN, the same on all nodes")
	flags.Uint16Var(
		&o.HostLinkPort,
		"host-link-vxlan-port",
		o.HostLinkPort,
		"UDP port of VXLAN links outside of VPCs, the same on all nodes",
	)
	flags.StringSliceVar(
		&o.VXLANDevices,
		"vxlan-devices",
		nil,
		"names of devices of the nodes that may have VXLAN links outside of VPCs without an InternalIP of the Node; pods must not reach the networks of these devices",
	)
	flags.BoolVar(
		&o.NodePorts,
		"node-ports",
		o.NodePorts,
		"serve NodePorts and external addresses of Services on this node; set to false if kube-proxy serves them",
	)
	flags.BoolVar(
		&o.ScaledEndpoints,
		"scaled-endpoints",
		o.ScaledEndpoints,
		"follow what the operator judges of Services, instead of Services, EndpointSlices and Networks; the operator needs the same option",
	)
	flags.Uint32Var(
		&o.FlowsPerShadow,
		"flows-per-pod",
		o.FlowsPerShadow,
		"limit of flows through the host per pod; 0: no limit",
	)
	flags.Uint32Var(
		&o.ConnectionsPerInterface,
		"service-flows-per-pod",
		o.ConnectionsPerInterface,
		"limit of flows to services per pod",
	)
	flags.StringVar(
		(*string)(&o.PodDevice),
		"pod-device",
		string(o.PodDevice),
		fmt.Sprintf(
			"kind of the devices of new pods, one of %v; auto selects the first kind that the node's kernel has",
			cnid.PodDevices(),
		),
	)
	flags.BoolVar(
		&o.Delegation,
		"delegation",
		o.Delegation,
		"run other CNI plugins of this node for interfaces of pods, where a DelegationGrant permits it; the daemon needs the PID namespace of the node",
	)
	flags.StringSliceVar(
		&o.GlobalNamespaces,
		"global-namespaces",
		o.GlobalNamespaces,
		"namespaces whose NetworkAttachmentDefinitions pods of all namespaces may select, as the operator has them",
	)
	flags.StringVar(
		&o.DelegationHost,
		"delegation-host",
		o.DelegationHost,
		"process whose mount namespace is that of the node, for --delegation and --node-network-state: init (PID 1), or parent (the parent process of the daemon) if nodes share a PID namespace",
	)
	flags.BoolVar(
		&o.SRIOV,
		"sriov",
		o.SRIOV,
		"attach pods to virtual functions of SR-IOV that the kubelet has allocated to them",
	)
	flags.StringVar(
		&o.PodResources,
		"pod-resources-socket",
		o.PodResources,
		"socket of the API by which the kubelet tells the devices of pods",
	)
	flags.BoolVar(
		&o.UnderlayAttachments,
		"underlay-attachments",
		o.UnderlayAttachments,
		"permit interfaces in the network of an address of the node where no program of the node sees their packets: virtual functions on its device without a VLAN, or in its VLAN; macvlan and ipvlan on a device below its device",
	)
	flags.BoolVar(
		&o.NodeNetworkState,
		"node-network-state",
		o.NodeNetworkState,
		"keep the NodeNetworkState of this node, and lead the network of the node to it; the daemon needs the PID namespace of the node",
	)
	flags.StringVar(
		&o.NetworkPolicyMode,
		"node-network-policy-mode",
		o.NetworkPolicyMode,
		"where policies about the network of nodes are put together: distributed (each node for itself) or centralized (the operator)",
	)
	flags.BoolVar(
		&o.NodeIPAM.Enabled,
		"node-ipam",
		o.NodeIPAM.Enabled,
		"serve addresses to other CNI plugins, where the node has the label kubernetes.azure.com/podnetwork-multi-tenancy-enabled",
	)
	flags.StringSliceVar(
		&o.NodeIPAM.Groups,
		"node-ipam-groups",
		o.NodeIPAM.Groups,
		"API groups that have the NodeInfo of this node",
	)
	flags.StringSliceVar(
		&o.NodeIPAM.Devices,
		"node-ipam-devices",
		nil,
		"patterns of the names of devices that pods may get, for example eth1,ens*",
	)
	flags.StringVar(
		&o.NodeIPAM.Machine,
		"node-ipam-machine",
		"",
		"ID of this virtual machine; empty for the UUID of the SMBIOS, or else the node's machine-id or the UID of the Node, with a prefix that says so",
	)
	flags.StringSliceVar(
		&o.nodeIPAMRanges,
		"node-ipam-ranges",
		nil,
		"ranges that pods with a delegated device reach by their first interface, beside Services: those of nodes and infrastructure; empty for the network of the node's own address",
	)
	flags.StringVar(
		&o.NodeIPAM.Listen,
		"node-ipam-listen",
		"",
		"TCP address on loopback, for example localhost:10090, at which that API is served too, to processes of the node that send the token in the folder --run-dir, and to no pod; empty for none",
	)
	flags.StringVar(
		&o.NodeIPAM.KubeletPlugins,
		"node-ipam-kubelet-plugins",
		"",
		"the kubelet's folder of device plugins, for example "+deviceplugin.DefaultDir+", where this node offers its devices as the resource acn.azure.com/vnet-nic; empty for none",
	)
	flags.StringVar(
		&o.NodeIPAM.Deletes,
		"node-ipam-deletes",
		queue.DeletesOfCNS,
		"directory in which CNI plugins for CNS leave a file for each DEL that nobody took; empty for none",
	)
	flags.StringVar(
		&o.NodeIPAM.PodCgroup,
		"node-ipam-pod-cgroup",
		"",
		"cgroup2 directory of all pods, which are kept away from --node-ipam-listen; empty for kubepods.slice or kubepods below the root",
	)
	flags.DurationVar(
		&o.DelegationWait,
		"delegation-timeout",
		o.DelegationWait,
		"how long the other CNI plugins of one interface may take",
	)
	flags.DurationVar(
		&o.RecheckEvery,
		"recheck-every",
		o.RecheckEvery,
		"time between comparisons of everything in the kernel with what has to be there; at most "+cnid.DefaultRecheck.String(),
	)
	flags.DurationVar(&o.Wait, "wait", o.Wait, "time for which an ADD waits for the control plane")
	flags.StringVar(&o.HealthAddr, "health-addr", o.HealthAddr, "address of /healthz and /readyz; empty for none")
	flags.StringVar(
		&o.ProxyHealthAddr,
		"proxy-health-addr",
		o.ProxyHealthAddr,
		"address of kube-proxy's /healthz and /livez, for load balancers outside; empty for none",
	)
	flags.StringVar(
		&o.MetricsAddr,
		"metrics-addr",
		o.MetricsAddr,
		"address of /metrics, with TLS and authorization; empty for none",
	)
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json")
}

func texts[T fmt.Stringer](list []T) []string {
	var out []string
	for _, item := range list {
		out = append(out, item.String())
	}
	return out
}

// prepare parses text values and sets up logging, also for the Kubernetes libraries.
func (o *options) prepare() (cnid.Config, *slog.Logger, error) {
	log, err := newLogger(o.logLevel, o.logFormat)
	if err != nil {
		return cnid.Config{}, nil, err
	}
	klog.SetSlogLogger(log)
	cfg := o.Config
	cfg.Guard = guard.Reviews{}
	cfg.FromEnvironment()
	if cfg.ServiceRanges, err = parseAll("--service-cidrs", o.serviceCIDRs, netip.ParsePrefix); err != nil {
		return cfg, nil, err
	}
	if cfg.Shadows, err = parseAll("--shadow-cidrs", o.shadowCIDRs, netip.ParsePrefix); err != nil {
		return cfg, nil, err
	}
	if cfg.Infrastructure, err = parseAll("--infrastructure-cidrs", o.infrastructure, netip.ParsePrefix); err != nil {
		return cfg, nil, err
	}
	if cfg.NodeIPAM.Ranges, err = parseAll("--node-ipam-ranges", o.nodeIPAMRanges, netip.ParsePrefix); err != nil {
		return cfg, nil, err
	}
	if cfg.Metadata, err = parseAll("--metadata-addresses", o.metadata, netip.ParseAddr); err != nil {
		return cfg, nil, err
	}
	cfg.SharedServices, err = parseAll("--shared-services", o.sharedServices, serviceplan.ParseRef)
	return cfg, log, err
}

func parseAll[T any](flag string, list []string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for _, text := range list {
		item, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		out = append(out, item)
	}
	return out, nil
}

func newLogger(level, format string) (*slog.Logger, error) {
	var handlerOptions slog.HandlerOptions
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	handlerOptions.Level, handlerOptions.ReplaceAttr = at, quote.LogValue
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, &handlerOptions)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, &handlerOptions)), nil
	}
	return nil, fmt.Errorf("--log-format: %q is neither text nor json", format)
}
