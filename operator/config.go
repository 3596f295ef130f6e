// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/danm"
	"github.com/alioth-net/alioth/operator/interfaces"
	"github.com/alioth-net/alioth/operator/nodeipam"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/operator/vpc"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Config is the configuration of an operator: its command line, and the values that its program
// hands in.
type Config struct {
	// Kubeconfig is a kubeconfig file; "" inside a pod. APIServerHost and
	// APIServerPort replace the values of the environment or the file, unless they
	// are "" and 0.
	Kubeconfig    string
	APIServerHost string
	APIServerPort int

	// LeaderElect makes this process act only while it holds the Lease
	// alioth-operator in Namespace.
	LeaderElect bool
	// Namespace of the Lease.
	Namespace string
	// LeaseDuration is how long the lease lasts without a renewal, a whole number of seconds.
	// The leader stops after two thirds of it without one, and reads everything again before
	// it can lead again.
	LeaseDuration time.Duration

	// DefaultVPC is the name of the VPC that the nodes are part of.
	DefaultVPC string
	// SharedServices are the Services (namespace/name) that every VPC reaches, besides the Services
	// that SharedService objects name.
	SharedServices []string
	// ServiceCIDRs and ShadowCIDRs are ranges that no VPC may use.
	ServiceCIDRs, ShadowCIDRs []netip.Prefix

	// MultiNetwork has networks outside of every VPC: the networks of DANM.
	MultiNetwork bool
	// VPCTypes are NetworkTypes whose networks stand for the VPC of the pod, compared without
	// regard to case.
	VPCTypes []string
	// Annotations lists the annotations that may request interfaces of pods:
	// interfaces.AnnotationDANM and interfaces.AnnotationNPWG.
	Annotations []string
	// Delegation: nodes run other CNI plugins for pods, where a DelegationGrant permits it.
	Delegation bool
	// GlobalNamespaces are those whose NetworkAttachmentDefinitions pods of all namespaces may
	// select.
	GlobalNamespaces []string
	// SRIOV: nodes attach pods to virtual functions of devices.
	SRIOV bool
	// NamingScheme is "", or NamingLegacy: interfaces are named by container_prefix alone.
	NamingScheme string
	// InterfacesPerPod is the highest number of interfaces that a pod may request.
	InterfacesPerPod int
	// TenantLimits bound a tenant's networks outside of VPCs.
	TenantLimits danm.Limits
	// TenantServices limits the Services of a tenant that may select endpoints by annotations; 0
	// for no limit.
	TenantServices int
	// ServiceEndpoints: Services whose annotations select networks have Endpoints objects
	// beside their EndpointSlices.
	ServiceEndpoints bool

	// NodeNetworkState lets policies make the networks of nodes.
	NodeNetworkState bool
	// PolicyMode is PolicyDistributed or PolicyCentralized.
	PolicyMode string

	// NodeIPAM gives pods of other CNI plugins addresses, on nodes with a label.
	NodeIPAM bool
	// NodeIPAMInfraSubnet is the name of the Subnet object of their first interface.
	NodeIPAMInfraSubnet string
	// NodeIPAMGroups lists the groups of ipamapi.Groups whose kinds are served.
	NodeIPAMGroups []string

	// ScaledEndpoints: the operator judges which backends Services have, and nodes may follow these
	// verdicts instead of Services.
	ScaledEndpoints bool

	// NetworkPolicies: label sets of pods get numbers. Nodes will enforce network policies by these numbers.
	NetworkPolicies bool

	// RoleNodes is RoleNodesLabelled or RoleNodesAny.
	RoleNodes string

	// RollCallEvery is the least time between two roll calls, which release the VNIs of
	// deleted VPCs. Each is a write of every node.
	RollCallEvery time.Duration

	// HealthAddr and MetricsAddr are host:port; "" serves nothing. Metrics on
	// another address than a loopback one are served with TLS, only to users that
	// the API server authenticates and authorizes.
	HealthAddr, MetricsAddr string
	// Guard authorizes readers of the metrics. Without it the operator serves metrics on
	// loopback only.
	Guard Guard
	// Garbage limits the garbage of the process; nil for Go's default.
	Garbage Garbage
}

// DefaultConfig returns the default configuration. The environment variable
// POD_NAMESPACE has the namespace.
func DefaultConfig() Config {
	return Config{
		LeaderElect: true,
		Namespace:   os.Getenv("POD_NAMESPACE"),

		LeaseDuration: defaultLease,

		DefaultVPC: v1alpha1.DefaultVPCName,
		ShadowCIDRs: []netip.Prefix{
			netip.MustParsePrefix(v1alpha1.ShadowCIDR4), netip.MustParsePrefix(v1alpha1.ShadowCIDR6),
		},
		MultiNetwork: true,
		Annotations:  []string{interfaces.AnnotationDANM, interfaces.AnnotationNPWG},

		InterfacesPerPod: interfaces.DefaultLimit,
		TenantLimits:     danm.DefaultLimits,
		TenantServices:   1024,
		ServiceEndpoints: true,
		PolicyMode:       PolicyDistributed,
		NodeIPAMGroups:   slices.Clone(ipamapi.Groups),
		RoleNodes:        RoleNodesLabelled,
		RollCallEvery:    10 * time.Second,
		HealthAddr:       "127.0.0.1:9473",
		MetricsAddr:      "127.0.0.1:9474",
	}
}

// leastRollCallEvery keeps roll calls, which every node writes for, from being a load.
const leastRollCallEvery = time.Second

func (c Config) validate() error {
	if c.RollCallEvery < leastRollCallEvery {
		return fmt.Errorf(
			"time between roll calls: want at least %s, got %s: correct --roll-call-every",
			leastRollCallEvery,
			c.RollCallEvery,
		)
	}
	if c.LeaseDuration < leastLease || c.LeaseDuration%time.Second != 0 {
		return fmt.Errorf(
			"duration of the lease: want whole seconds, at least %s, got %s: correct --lease-duration",
			leastLease,
			c.LeaseDuration,
		)
	}
	if c.NamingScheme != "" && c.NamingScheme != NamingLegacy {
		return fmt.Errorf("naming scheme %q: want nothing or %q: correct --naming-scheme", c.NamingScheme, NamingLegacy)
	}
	for _, annotation := range c.Annotations {
		if annotation != interfaces.AnnotationDANM && annotation != interfaces.AnnotationNPWG {
			return fmt.Errorf(
				"annotation %q: want %q or %q: correct --interface-annotations",
				annotation,
				interfaces.AnnotationDANM,
				interfaces.AnnotationNPWG,
			)
		}
	}
	if err := multinet.CheckNamespaces(c.GlobalNamespaces); err != nil {
		return fmt.Errorf("global namespaces: %w: correct --global-namespaces", err)
	}
	if c.InterfacesPerPod < 1 {
		return fmt.Errorf("interfaces per pod: want at least 1, got %d: correct --interfaces-per-pod", c.InterfacesPerPod)
	}
	if c.PolicyMode != PolicyDistributed && c.PolicyMode != PolicyCentralized {
		return fmt.Errorf(
			"mode of policies %q: want %q or %q: correct --node-network-policy-mode",
			c.PolicyMode,
			PolicyDistributed,
			PolicyCentralized,
		)
	}
	if c.RoleNodes != RoleNodesLabelled && c.RoleNodes != RoleNodesAny {
		return fmt.Errorf(
			"nodes for roles %q: want %q or %q: correct --role-nodes",
			c.RoleNodes,
			RoleNodesLabelled,
			RoleNodesAny,
		)
	}
	return errors.Join(c.validateTenantLimits(), c.validateNodeIPAM())
}

func (c Config) validateTenantLimits() error {
	l := c.TenantLimits
	if l.Networks < 0 || l.Numbers < 0 {
		return fmt.Errorf(
			"limits of a tenant: want 0 (no limit) or more, got %d networks and %d numbers: correct --tenant-networks and --tenant-numbers",
			l.Networks,
			l.Numbers,
		)
	}
	if c.TenantServices < 0 {
		return fmt.Errorf(
			"limit of a tenant: want 0 (no limit) or more, got %d Services: correct --tenant-services",
			c.TenantServices,
		)
	}
	if l.Prefix4 < 0 || l.Prefix4 > 30 || l.Prefix6 < 0 || l.Prefix6 > 126 {
		return fmt.Errorf(
			"shortest prefixes of a tenant: want 0 to 30 for IPv4 and 0 to 126 for IPv6, got %d and %d: correct --tenant-prefix4 and --tenant-prefix6",
			l.Prefix4,
			l.Prefix6,
		)
	}
	return nil
}

func (c Config) validateNodeIPAM() error {
	if !c.NodeIPAM {
		return nil
	}
	if c.NodeIPAMInfraSubnet == "" {
		return errors.New(
			"node IPAM without a subnet for the first interface of pods: give its name with --node-ipam-infra-subnet",
		)
	}
	if faults := validation.IsDNS1123Subdomain(c.NodeIPAMInfraSubnet); len(faults) > 0 {
		return fmt.Errorf(
			"%q can't be the name of a Subnet: %s: correct --node-ipam-infra-subnet",
			c.NodeIPAMInfraSubnet,
			faults[0],
		)
	}
	if len(c.NodeIPAMGroups) == 0 {
		return fmt.Errorf(
			"no API group for node IPAM: give some of %s with --node-ipam-groups",
			strings.Join(ipamapi.Groups, ", "),
		)
	}
	for _, group := range c.NodeIPAMGroups {
		if !slices.Contains(ipamapi.Groups, group) {
			return fmt.Errorf(
				"API group %q: want some of %s: correct --node-ipam-groups",
				group,
				strings.Join(ipamapi.Groups, ", "),
			)
		}
	}
	return nil
}

// Modes of policies of node networks: in PolicyDistributed the daemon of each node applies
// them to its node, in PolicyCentralized the operator does for all nodes.
const (
	PolicyDistributed = "distributed"
	PolicyCentralized = "centralized"
)

// Nodes that may be bouncers and dividers: with RoleNodesLabelled the nodes with the label
// v1alpha1.RoleNodeLabel, with RoleNodesAny all nodes. A member sees packets of VPCs that it does
// not host.
const (
	RoleNodesLabelled = "labelled"
	RoleNodesAny      = "any"
)

// NamingLegacy is the NamingScheme of DANM before version 4.
const NamingLegacy = "legacy"

// source returns the source of pods' attachments.
func (c Config) source() pod.Source {
	if c.NodeIPAM {
		return nodeipam.Source(c.NodeIPAMInfraSubnet, c.ownSource())
	}
	return c.ownSource()
}

// ownSource returns the source for pods whose interfaces Alioth makes.
func (c Config) ownSource() pod.Source {
	if !c.MultiNetwork {
		return pod.Primary(c.DefaultVPC)
	}
	return interfaces.Source(interfaces.Config{
		DefaultVPC: c.DefaultVPC, VPCTypes: c.vpcTypes(), Kinds: c.kinds(),
		Annotations: c.Annotations, Delegation: c.Delegation,
		LegacyNames: c.NamingScheme == NamingLegacy, Limit: c.InterfacesPerPod, Links: c.TenantLimits.Numbers,
		Sharing: c.sharing(),
	})
}

// sharing is whose definitions pods and Services of other namespaces may name.
func (c Config) sharing() multinet.Sharing { return multinet.Sharing{Global: c.GlobalNamespaces} }

// vpcTypes returns the VPCTypes in lower case, as the rows of networks have their types.
func (c Config) vpcTypes() []string {
	types := make([]string, 0, len(c.VPCTypes))
	for _, networkType := range c.VPCTypes {
		types = append(types, strings.ToLower(networkType))
	}
	return types
}

// kinds returns the types of networks outside of every VPC that nodes have drivers for.
func (c Config) kinds() []string {
	return slices.DeleteFunc(multinet.DynamicTypes(), func(networkType string) bool {
		return networkType == multinet.TypeSRIOV && !c.SRIOV
	})
}

// serving returns the kinds of networks outside of every VPC that the nodes serve.
func (c Config) serving() danm.Serving {
	return danm.Serving{Kinds: c.kinds(), VPCTypes: c.vpcTypes(), Delegation: c.Delegation}
}

func (c Config) rules() vpc.Rules {
	rules := vpc.Rules{DefaultVPC: c.DefaultVPC}
	for _, prefix := range c.ServiceCIDRs {
		rules.Reserved = append(rules.Reserved, vpc.ReservedRange{Prefix: prefix, What: "the cluster's service range"})
	}
	for _, prefix := range c.ShadowCIDRs {
		rules.Reserved = append(rules.Reserved, vpc.ReservedRange{Prefix: prefix, What: "the range of shadow addresses"})
	}
	return rules
}

// rest returns how to reach the API server.
func (c Config) rest() (*rest.Config, error) {
	config, err := c.load()
	if err != nil {
		return nil, err
	}
	if c.APIServerHost != "" {
		config.Host = "https://" + net.JoinHostPort(c.APIServerHost, strconv.Itoa(cmp.Or(c.APIServerPort, 443)))
	}
	// The number of workers limits concurrent requests. The API server's priority and
	// fairness shares its capacity among clients.
	config.QPS = -1
	config.UserAgent = "alioth-operator"
	return config, nil
}

func (c Config) load() (*rest.Config, error) {
	if c.Kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig %s: %w", c.Kubeconfig, err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; outside of a pod give --kubeconfig", err)
	}
	return config, nil
}
