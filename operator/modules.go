// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"log/slog"

	"github.com/go-logr/logr"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/policyhandler"
	"github.com/alioth-net/alioth/operator/address"
	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/danm"
	"github.com/alioth-net/alioth/operator/domain"
	"github.com/alioth-net/alioth/operator/externaladdress"
	"github.com/alioth-net/alioth/operator/externalpool"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/hostaccess"
	"github.com/alioth-net/alioth/operator/hostlink"
	"github.com/alioth-net/alioth/operator/netservice"
	"github.com/alioth-net/alioth/operator/network"
	"github.com/alioth-net/alioth/operator/node"
	"github.com/alioth-net/alioth/operator/nodeipam/podconfig"
	"github.com/alioth-net/alioth/operator/nodeipam/podnetwork"
	"github.com/alioth-net/alioth/operator/nodeipam/podnetworkinstance"
	"github.com/alioth-net/alioth/operator/nodenetwork"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/operator/role"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/operator/scaled"
	"github.com/alioth-net/alioth/operator/service"
	"github.com/alioth-net/alioth/operator/sharedservice"
	"github.com/alioth-net/alioth/operator/subnet"
	"github.com/alioth-net/alioth/operator/tenantconfig"
	"github.com/alioth-net/alioth/operator/vpc"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/kinds/roles"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// module is an area of the operator. A new area is a new module.
type module struct {
	// kinds are the kinds that it watches. A kind belongs to one module, and its rows to all of
	// them.
	kinds []*descriptor.Kind
	// rights are the rights of the module besides listing and watching its kinds, as "resource:
	// verbs".
	rights []string
	// register adds the controllers, made of the parts of a term.
	register func(p *parts) error
}

// modules lists the areas of the operator that a configuration has.
func modules(cfg Config) []module {
	all := []module{announcements(), networking(), bouncing(), services(), hosts(), scaledEndpoints(cfg.ScaledEndpoints)}
	if cfg.MultiNetwork {
		all = append(all, multiNetwork(), networkServices())
	}
	if cfg.NodeNetworkState {
		all = append(all, nodeNetwork(cfg.PolicyMode == PolicyCentralized))
	}
	if cfg.NetworkPolicies {
		all = append(all, labelSets())
	}
	if cfg.NodeIPAM {
		all = append(all, nodeIPAM(cfg.NodeIPAMGroups))
	}
	return all
}

// announcements returns the area of events about changed conditions, and about objects that are
// left out.
func announcements() module {
	return module{
		rights: []string{
			"events.events.k8s.io: create patch",
			"externalpools.alioth.dev/status: patch",
			"hostaccesses.alioth.dev/status: patch",
			"networks.arktos.futurewei.com/status: patch",
			"subnets.alioth.dev/status: patch",
			"vpcs.alioth.dev/status: patch",
		},
		register: func(p *parts) error {
			announce.Subscribe(p.feed, p.env.events, p.env.leading)
			announce.LeftOut(p.feed, p.env.events, p.env.leading)
			return announce.RegisterLeftOut(
				p.env.controllers,
				p.feed,
				&announce.LeftOutReconciler{Client: p.client("leftout"), Feed: p.feed},
			)
		},
	}
}

// networking returns the area of VPCs, and of the addresses of pods and nodes.
func networking() module {
	return module{
		kinds: []*descriptor.Kind{
			core.Namespace.Kind, core.Node.Kind, vpcs.VNIClaim.Kind, vpcs.RollCall.Kind, vpcs.VPC.Kind, vpcs.Subnet.Kind,
			vpcs.Usage.Kind,
			feed.Address, outside.AttachmentClaim.Kind, vpcs.Network.Kind, feed.Pod,
		},
		rights: []string{
			"addresses.alioth.dev: create delete get patch",
			"attachmentclaims.alioth.dev: create delete get patch",
			"networks.arktos.futurewei.com/status: patch",
			"networks.arktos.futurewei.com: patch",
			"nodes: get",
			"pods/status: patch",
			"pods: get",
			"rollcalls.alioth.dev: create get update",
			"subnets.alioth.dev/status: patch",
			"subnets.alioth.dev: patch",
			"usages.alioth.dev: create update",
			"vniclaims.alioth.dev: create delete get",
			"vpcs.alioth.dev/status: patch",
			"vpcs.alioth.dev: get patch",
		},
		register: registerNetworking,
	}
}

func registerNetworking(p *parts) error {
	to := p.env.controllers
	return errors.Join(
		rollcall.Register(to, p.feed, p.calls),
		vpc.Register(to, p.feed, &vpc.Reconciler{
			Client: p.client("vpc"), Live: p.env.live, Store: p.rows, Term: p.calls, Feed: p.feed, Rules: p.cfg.rules(),
		}),
		subnet.Register(to, p.feed, &subnet.Reconciler{Client: p.client("subnet"), Store: p.central}),
		network.Register(to, p.feed, &network.Reconciler{Client: p.client("network"), Store: p.rows}),
		node.Register(to, p.feed, &node.Reconciler{
			Live: p.env.live, Store: p.rows, Claimer: p.claimer("node"), Events: p.env.events, DefaultVPC: p.cfg.DefaultVPC,
			Audit: p.reporter,
		}),
		address.Register(
			to,
			p.feed,
			&address.Reconciler{Live: p.env.live, Store: p.rows, Claimer: p.claimer("address"), Audit: p.reporter},
		),
		address.RegisterAttachments(
			to,
			p.feed,
			&address.Attachments{Live: p.env.live, Store: p.rows, Claimer: p.claimer("attachmentclaim")},
		),
		pod.Register(to, p.feed, pod.New(pod.Options{
			Client: p.client(
				"pod",
			), Live: p.env.live, Store: p.rows, Claimer: p.claimer("pod"), Events: p.env.events, Metrics: p.metrics.pods,
			Sources: []pod.Source{p.cfg.source()}, Sharing: p.cfg.sharing(), Clock: p.env.clock,
		})),
	)
}

// bouncing returns the area of bouncers and dividers.
func bouncing() module {
	return module{
		kinds: []*descriptor.Kind{roles.Member.Kind, roles.NodeRoles.Kind},
		rights: []string{
			"rolemembers.alioth.dev: create delete update",
			"subnets.alioth.dev/status: patch",
			"vpcs.alioth.dev/status: patch",
			"vpcs.alioth.dev: get",
		},
		register: func(p *parts) error {
			return role.Register(p.env.controllers, p.feed, &role.Reconciler{
				Client: p.client("role"), Live: p.env.live, Store: p.rows, Events: p.env.events, Clock: p.env.clock,
				AnyNode: p.cfg.RoleNodes == RoleNodesAny, Off: !p.cfg.ScaledEndpoints,
			})
		},
	}
}

// services returns the area of Services and their addresses.
func services() module {
	return module{
		kinds: []*descriptor.Kind{
			core.ServiceCIDR.Kind, core.Service.Kind, core.EndpointSlice.Kind, vpcs.SharedService.Kind,
			vpcs.ExternalPool.Kind, vpcs.ExternalAddress.Kind,
		},
		rights: []string{
			"admissiongrants.alioth.dev: create get update",
			"externaladdresses.alioth.dev/status: patch",
			"externaladdresses.alioth.dev: create delete get",
			"externalpools.alioth.dev/status: patch",
			"services/status: patch",
			"services: get",
			"sharedservices.alioth.dev/status: patch",
		},
		register: registerServices,
	}
}

func registerServices(p *parts) error {
	to := p.env.controllers
	return errors.Join(
		service.Register(to, p.feed, service.New(service.Options{
			Client: p.client("service"), Store: p.rows, Claimer: p.claimer("service"), Events: p.env.events,
			Rules: service.Rules{DefaultVPC: p.cfg.DefaultVPC, Shared: p.cfg.SharedServices},
		})),
		externalpool.Register(to, p.feed, &externalpool.Reconciler{
			Client: p.client("externalpool"), Store: p.rows, Rules: p.cfg.rules(), Grants: p.grants("externalpool"),
		}),
		externaladdress.Register(to, p.feed, &externaladdress.Reconciler{
			Client: p.client(
				"externaladdress",
			), Live: p.env.live, Store: p.rows, Claimer: p.claimer("externaladdress"), DefaultVPC: p.cfg.DefaultVPC,
		}),
		sharedservice.Register(to, p.feed, &sharedservice.Reconciler{Client: p.client("sharedservice"), Store: p.rows}),
	)
}

// scaledEndpoints returns the area of the objects that nodes follow instead of Services. Switched
// off, it tells nodes that objects written before are old.
func scaledEndpoints(on bool) module {
	if !on {
		return module{
			kinds:  []*descriptor.Kind{vpcs.ScaledEndpoint.Kind},
			rights: []string{"scaledendpoints.alioth.dev: update"},
			register: func(p *parts) error {
				return scaled.RegisterWithdrawal(
					p.env.controllers,
					p.feed,
					&scaled.Withdrawal{Client: p.client("scaledendpoint"), Store: p.rows},
				)
			},
		}
	}
	return module{
		kinds:  []*descriptor.Kind{vpcs.ScaledEndpoint.Kind},
		rights: []string{"scaledendpoints.alioth.dev: create delete update"},
		register: func(p *parts) error {
			return scaled.Register(p.env.controllers, p.feed, scaled.New(p.client("scaledendpoint"), p.rows, scaled.Rules{
				DefaultVPC: p.cfg.DefaultVPC, Shared: p.cfg.SharedServices, APIServer: v1alpha1.APIServerService,
			}))
		},
	}
}

// hosts returns the area of tenants' access to nodes.
func hosts() module {
	return module{
		kinds: []*descriptor.Kind{vpcs.HostAccess.Kind},
		rights: []string{
			"admissiongrants.alioth.dev: create get update",
			"hostaccesses.alioth.dev/status: patch",
		},
		register: func(p *parts) error {
			return hostaccess.Register(p.env.controllers, p.feed, &hostaccess.Reconciler{
				Client: p.client("hostaccess"), Store: p.rows, Grants: p.grants("hostaccess"),
			})
		},
	}
}

// labelSets returns the area of the numbers that stand for label sets. No controller writes its kind yet.
func labelSets() module {
	return module{
		kinds:    []*descriptor.Kind{vpcs.PolicyIdentity.Kind},
		rights:   []string{"policyidentities.alioth.dev: create delete patch"},
		register: func(*parts) error { return nil },
	}
}

// multiNetwork returns the area of networks outside of every VPC.
func multiNetwork() module {
	area := module{
		kinds: []*descriptor.Kind{
			outside.HostVNIClaim.Kind,
			outside.DomainClaim.Kind,
			outside.HostLink.Kind,
			outside.HostLinkReport.Kind,
		},
		rights: []string{
			"admissiongrants.alioth.dev: create get update",
			"clusternetworks.danm.io/status: patch",
			"clusternetworks.danm.io: get patch",
			"clusternetworks.danm.k8s.io/status: patch",
			"clusternetworks.danm.k8s.io: get patch",
			"danmnets.danm.io/status: patch",
			"danmnets.danm.io: get patch",
			"danmnets.danm.k8s.io/status: patch",
			"danmnets.danm.k8s.io: get patch",
			"domainclaims.alioth.dev: create delete get",
			"hostlinks.alioth.dev: create delete update",
			"hostvniclaims.alioth.dev: create delete get",
			"tenantconfigs.danm.io/status: patch",
			"tenantconfigs.danm.k8s.io/status: patch",
			"tenantnetworks.danm.io/status: patch",
			"tenantnetworks.danm.io: get patch",
			"tenantnetworks.danm.k8s.io/status: patch",
			"tenantnetworks.danm.k8s.io: get patch",
		},
		register: registerMultiNetwork,
	}
	area.kinds = append(area.kinds, outside.Definition.Kind, outside.DelegationGrant.Kind)
	for _, kind := range outside.Networks {
		area.kinds = append(area.kinds, kind.Kind)
	}
	for _, kind := range outside.TenantConfigs {
		area.kinds = append(area.kinds, kind.Kind)
	}
	return area
}

// networkServices returns the area of Services whose endpoints are the addresses of pods in
// chosen networks.
func networkServices() module {
	return module{
		rights: []string{
			"endpoints: create delete get update",
			"endpointslices.discovery.k8s.io: create delete update",
			"services/finalizers: update",
		},
		register: func(p *parts) error {
			return netservice.Register(p.env.controllers, p.feed, netservice.New(netservice.Options{
				Client: p.client(
					"netservice",
				), Live: p.env.live, Store: p.rows, Events: p.env.events, Endpoints: p.cfg.ServiceEndpoints,
				Rules: netservice.Rules{
					DefaultVPC: p.cfg.DefaultVPC,
					VPCTypes:   p.cfg.vpcTypes(),
					Services:   p.cfg.TenantServices,
					Sharing:    p.cfg.sharing(),
				},
			}))
		},
	}
}

func registerMultiNetwork(p *parts) error {
	to := p.env.controllers
	errs := []error{
		danm.RegisterClaims(to, p.feed, &danm.Claims{
			Client: p.client("hostvniclaim"), Live: p.env.live, Store: p.rows, Feed: p.feed,
		}),
		domain.Register(to, p.feed, &domain.Reconciler{
			Client: p.client("domainclaim"), Live: p.env.live, Store: p.rows, Feed: p.feed,
		}),
		hostlink.Register(
			to,
			p.feed,
			&hostlink.Reconciler{
				Client:     p.client("hostlink"),
				Store:      p.rows,
				Numbers:    p.cfg.TenantLimits.Numbers,
				Delegation: p.cfg.Delegation,
			},
		),
	}
	for _, kind := range outside.Networks {
		errs = append(errs, danm.Register(to, p.feed, &danm.Reconciler{
			Kind: kind, Limits: p.cfg.TenantLimits, Serving: p.cfg.serving(), Client: p.client(danm.Name(kind)),
			Live: p.env.live, Store: p.rows, Feed: p.feed,
		}))
	}
	for _, kind := range outside.TenantConfigs {
		errs = append(errs, tenantconfig.Register(to, p.feed, &tenantconfig.Reconciler{
			Kind: kind, Client: p.client(tenantconfig.Name(kind)), Store: p.rows, Grants: p.grants(tenantconfig.Name(kind)),
		}))
	}
	return errors.Join(errs...)
}

// nodeNetwork returns the area of policies that make the networks of nodes.
func nodeNetwork(centralized bool) module {
	area := module{
		kinds: nmstateapi.All(),
		rights: []string{
			"nodenetconfpolicies.nmstate.io/status: patch",
			"nodenetconfpolicies.nmstate.io: get",
			"nodenetworkconfigurationenactments.nmstate.io/status: patch",
			"nodenetworkconfigurationenactments.nmstate.io: delete get",
			"nodenetworkconfigurationpolicies.nmstate.io/status: patch",
			"nodenetworkconfigurationpolicies.nmstate.io: get",
		},
		register: registerNodeNetwork,
	}
	if centralized {
		area.rights = append(area.rights,
			"nodenetworkconfigurationenactments.nmstate.io: create patch",
			"nodenetworkstates.nmstate.io/status: patch",
			"nodenetworkstates.nmstate.io: get patch",
		)
	}
	return area
}

func registerNodeNetwork(p *parts) error {
	to := p.env.controllers
	handling := func(controller string) policyhandler.Config {
		api := nodenetwork.API{Client: p.client(controller), Live: p.env.live}
		return policyhandler.Config{
			API: api, Store: p.rows, Node: api.Node, Nodes: api.Nodes, Clock: p.env.clock,
			Log: slog.New(logr.ToSlogHandler(p.env.log)),
		}
	}
	var errs []error
	for _, kind := range []string{nmstatev1.NodeNetworkConfigurationPolicyKind, nmstatev1.NodeNetConfPolicyKind} {
		errs = append(errs, nodenetwork.RegisterPolicies(to, p.feed, &nodenetwork.Policies{
			Kind: kind, Rollouts: policyhandler.NewRollouts(handling(kind)),
		}))
	}
	if p.cfg.PolicyMode == PolicyCentralized {
		errs = append(errs, nodenetwork.RegisterStates(to, p.feed, &nodenetwork.States{
			Handler: policyhandler.NewHandler(handling("nodenetworkstate")),
		}))
	}
	return errors.Join(errs...)
}

// nodeIPAM returns the area of addresses for other CNI plugins.
func nodeIPAM(groups []string) module {
	area := module{kinds: ipamapi.OfGroups(groups), register: registerNodeIPAM}
	for _, group := range groups {
		area.rights = append(area.rights,
			"multitenantpodnetworkconfigs."+group+"/status: patch",
			"multitenantpodnetworkconfigs."+group+": create delete",
			"podnetworkinstances."+group+"/status: patch",
			"podnetworkinstances."+group+": patch",
			"podnetworks."+group+"/status: patch",
		)
	}
	return area
}

func registerNodeIPAM(p *parts) error {
	to := p.env.controllers
	var errs []error
	for _, group := range p.cfg.NodeIPAMGroups {
		errs = append(
			errs,
			podnetwork.Register(
				to,
				p.feed,
				&podnetwork.Reconciler{Group: group, Client: p.client(podnetwork.Name(group)), Store: p.central},
			),
			podnetworkinstance.Register(to, p.feed, &podnetworkinstance.Reconciler{
				Group: group, Client: p.client(podnetworkinstance.Name(group)), Store: p.rows, Term: p.calls, Events: p.env.events,
			}),
			podconfig.Register(
				to,
				p.feed,
				&podconfig.Reconciler{Group: group, Client: p.client(podconfig.Name(group)), Store: p.central},
			),
		)
	}
	return errors.Join(errs...)
}
