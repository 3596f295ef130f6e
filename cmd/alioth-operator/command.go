// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cmd/process/garbage"
	"github.com/alioth-net/alioth/cmd/process/guard"
	"github.com/alioth-net/alioth/operator"
)

// options are the command line; text values are parsed in prepare.
type options struct {
	operator.Config
	serviceCIDRs, shadowCIDRs []string
	logLevel, logFormat       string
}

func newCommand() *cobra.Command {
	o := &options{Config: operator.DefaultConfig()}
	root := &cobra.Command{
		Use:     "alioth-operator",
		Short:   "Assign VNIs and addresses to the VPCs, subnets and pods of the cluster",
		Version: version.Get().String(),
		Args:    cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := o.prepare()
			if err != nil {
				return err
			}
			return operator.Run(cmd.Context(), cfg, log)
		},
	}
	o.addFlags(root)
	o.addTenantLimits(root)
	root.AddCommand(uninstallCommand(), checkUpgradeCommand())
	return root
}

// addTenantLimits adds the flags of operator.Config.TenantLimits and TenantServices.
func (o *options) addTenantLimits(root *cobra.Command) {
	flags, limits := root.Flags(), &o.TenantLimits
	flags.IntVar(
		&limits.Networks,
		"tenant-networks",
		limits.Networks,
		"highest number of networks outside of VPCs of a tenant: TenantNetworks, and DanmNets in namespaces with a tenant label; 0 for no limit",
	)
	flags.IntVar(
		&limits.Numbers,
		"tenant-numbers",
		limits.Numbers,
		"how many of these networks may be on a VLAN or VXLAN; 0 for no limit",
	)
	flags.IntVar(
		&o.TenantServices,
		"tenant-services",
		o.TenantServices,
		"highest number of Services of a tenant whose annotations select endpoints; 0 for no limit",
	)
	flags.IntVar(&limits.Prefix4, "tenant-prefix4", limits.Prefix4, "shortest prefix length of their IPv4 ranges")
	flags.IntVar(&limits.Prefix6, "tenant-prefix6", limits.Prefix6, "shortest prefix length of their IPv6 ranges")
}

func (o *options) addFlags(root *cobra.Command) {
	for _, prefix := range o.ShadowCIDRs {
		o.shadowCIDRs = append(o.shadowCIDRs, prefix.String())
	}
	flags := root.Flags()
	flags.StringVar(
		&o.Kubeconfig,
		"kubeconfig",
		os.Getenv("KUBECONFIG"),
		"kubeconfig file; needed only outside of a pod (environment: KUBECONFIG)",
	)
	flags.StringVar(&o.APIServerHost, "api-server-host", "", "host of the API server; default: the environment's")
	flags.IntVar(&o.APIServerPort, "api-server-port", 0, "port of the API server; default: 443 if the host is set")
	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "act only while holding the lease")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the lease (environment: POD_NAMESPACE)")
	flags.DurationVar(
		&o.LeaseDuration,
		"lease-duration",
		o.LeaseDuration,
		"how long the lease lasts without a renewal; longer where requests to the API server may take seconds, shorter for a faster takeover",
	)
	flags.StringVar(&o.DefaultVPC, "default-vpc", o.DefaultVPC, "name of the default VPC, which contains the nodes")
	flags.StringSliceVar(&o.serviceCIDRs, "service-cidrs", nil, "the cluster's service ranges, which no VPC may use")
	flags.StringSliceVar(
		&o.SharedServices,
		"shared-services",
		o.SharedServices,
		"Services (namespace/name) that every VPC reaches, in addition to SharedService objects",
	)
	flags.StringSliceVar(&o.shadowCIDRs, "shadow-cidrs", o.shadowCIDRs, "ranges of shadow addresses, which no VPC may use")
	flags.BoolVar(
		&o.MultiNetwork,
		"multi-network",
		o.MultiNetwork,
		"serve networks outside of VPCs: DanmNet, TenantNetwork, ClusterNetwork and TenantConfig",
	)
	flags.StringSliceVar(
		&o.VPCTypes,
		"vpc-types",
		o.VPCTypes,
		"NetworkTypes of DANM's networks that stand for the pod's VPC, for example flannel",
	)
	flags.StringVar(
		&o.NamingScheme,
		"naming-scheme",
		o.NamingScheme,
		`"legacy" names interfaces by container_prefix alone; by default the name ends with the interface's number`,
	)
	flags.StringSliceVar(
		&o.Annotations,
		"interface-annotations",
		o.Annotations,
		"annotations in which pods may request interfaces: danm (danm.k8s.io/interfaces), npwg (k8s.v1.cni.cncf.io/networks)",
	)
	flags.BoolVar(
		&o.SRIOV,
		"sriov",
		o.SRIOV,
		"serve networks of DANM of type sriov: nodes attach pods to virtual functions of devices",
	)
	flags.StringSliceVar(
		&o.GlobalNamespaces,
		"global-namespaces",
		o.GlobalNamespaces,
		"namespaces whose NetworkAttachmentDefinitions pods of all namespaces may select; plugins need a DelegationGrant nevertheless",
	)
	flags.BoolVar(
		&o.Delegation,
		"delegation",
		o.Delegation,
		"let nodes run other CNI plugins for NetworkAttachmentDefinitions and for networks of DANM with a static type, where a DelegationGrant permits it",
	)
	flags.BoolVar(
		&o.ServiceEndpoints,
		"service-endpoints",
		o.ServiceEndpoints,
		"write Endpoints objects beside the EndpointSlices of Services whose annotations select networks",
	)
	flags.IntVar(
		&o.InterfacesPerPod,
		"interfaces-per-pod",
		o.InterfacesPerPod,
		"highest number of interfaces that a pod may request",
	)
	flags.BoolVar(
		&o.NodeNetworkState,
		"node-network-state",
		o.NodeNetworkState,
		"let policies make the networks of nodes: NodeNetworkConfigurationPolicy and NodeNetConfPolicy",
	)
	flags.StringVar(
		&o.PolicyMode,
		"node-network-policy-mode",
		o.PolicyMode,
		"distributed: each node's daemon applies the policies to its node; centralized: the operator applies them to all nodes",
	)
	flags.BoolVar(
		&o.NodeIPAM,
		"node-ipam",
		o.NodeIPAM,
		"give pods of other CNI plugins addresses on nodes with the label kubernetes.azure.com/podnetwork-multi-tenancy-enabled",
	)
	flags.StringVar(
		&o.NodeIPAMInfraSubnet,
		"node-ipam-infra-subnet",
		o.NodeIPAMInfraSubnet,
		"name of the Subnet object of the first interface of these pods",
	)
	flags.StringSliceVar(
		&o.NodeIPAMGroups,
		"node-ipam-groups",
		o.NodeIPAMGroups,
		"API groups of PodNetwork, PodNetworkInstance, NodeInfo and MultitenantPodNetworkConfig",
	)
	flags.BoolVar(
		&o.ScaledEndpoints,
		"scaled-endpoints",
		o.ScaledEndpoints,
		"judge who the backends of Services are, and write it to ScaledEndpoints for the nodes",
	)
	flags.BoolVar(
		&o.NetworkPolicies,
		"network-policies",
		o.NetworkPolicies,
		"give label sets of pods numbers (PolicyIdentity), for the enforcement of network policies; nothing is enforced yet",
	)
	flags.StringVar(
		&o.RoleNodes,
		"role-nodes",
		o.RoleNodes,
		"nodes that may be bouncers and dividers: labelled (those with the label "+v1alpha1.RoleNodeLabel+"=true) or any",
	)
	flags.DurationVar(
		&o.RollCallEvery,
		"roll-call-every",
		o.RollCallEvery,
		"least time between two roll calls, which release the VNIs of deleted VPCs; each is a write of every node",
	)
	flags.StringVar(&o.HealthAddr, "health-addr", o.HealthAddr, "address of /healthz and /readyz; empty for none")
	flags.StringVar(
		&o.MetricsAddr,
		"metrics-addr",
		o.MetricsAddr,
		"address of /metrics, with TLS and authorization unless it is a loopback address; empty for none",
	)
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json")
}

// prepare parses text values and sets up logging, also for the Kubernetes libraries.
func (o *options) prepare() (operator.Config, *slog.Logger, error) {
	log, err := newLogger(o.logLevel, o.logFormat)
	if err != nil {
		return operator.Config{}, nil, err
	}
	klog.SetSlogLogger(log)
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	cfg := o.Config
	cfg.Guard, cfg.Garbage = guard.Reviews{}, garbage.Filling{}
	if cfg.ServiceCIDRs, err = prefixes("--service-cidrs", o.serviceCIDRs); err != nil {
		return cfg, nil, err
	}
	cfg.ShadowCIDRs, err = prefixes("--shadow-cidrs", o.shadowCIDRs)
	return cfg, log, err
}

func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

func newLogger(level, format string) (*slog.Logger, error) {
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	options := &slog.HandlerOptions{Level: at, ReplaceAttr: quote.LogValue}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, options)), nil
	}
	return nil, fmt.Errorf("--log-format: want text or json, got %q", format)
}
