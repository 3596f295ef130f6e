// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"net"
	"net/netip"

	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/cnid/cluster/problems"
	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/cniserver"
	"github.com/alioth-net/alioth/cnid/cni/decision"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/hostlink"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/proxyhealth"
	"github.com/alioth-net/alioth/cnid/forward/reconcile"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/lifecycle/maintenance"
	"github.com/alioth-net/alioth/cnid/system/apihost"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// control has the functions of the API's side for a daemon.
type control struct {
	sources sources
	// leftOut are the objects that the node's store does not have as the API has them.
	leftOut  descriptor.Source
	releaser attachment.Releaser
	reporter reporter
	// announced reports whether the API knows of this daemon.
	announced broadcast.Gate
	// api decides about requests for metrics from other machines; nil without an API server.
	api *rest.Config
}

// sources report which objects have been read of the API.
type sources interface {
	decision.Sources
	reconcile.Sources
	// Synced reports whether this node's objects have been read.
	Synced() (bool, <-chan struct{})
}

// reporter reports what happens on the node, by events and conditions. Its methods must
// not block.
type reporter interface {
	// Attached is called for a pod that was attached.
	Attached(pod journal.Pod)
	// Refused is called for a pod that is refused something, or is not probed.
	Refused(pod journal.Pod, reason, message string)
	Lost(plan.Lost)
	Closed(plan.ClosedPort)
	Repaired(list []finding.Repair)
	// Problems are all that there are now, the gravest first.
	Problems(list []finding.Problem)
	// Restored is called for a pod whose interface was restored or, with a cause,
	// could not be.
	Restored(pod journal.Pod, cause error)
	// LinksFailed are all VLAN and VXLAN links that the node can't make now.
	LinksFailed(list []multinet.LinkFailure)
	// LinksAddressed are the addresses of VXLAN links that the other nodes have to be told.
	LinksAddressed(list []multinet.DeviceAddrs)
}

// daemon serves the container runtime and programs the kernel, from a store that the
// API's side fills. Its modules run.
type daemon struct {
	*node
	control
	// apiHost resolves the API server's name.
	apiHost     *apihost.Follower
	hostLinks   *hostlink.Loop
	attachments *attachment.Manager
	server      *cniserver.Server
	restorer    *maintenance.Restorer
	checker     *problems.Checker
	proxyHealth *proxyhealth.Server
	loop        *reconcile.Loop
}

// observer forwards the findings of passes.
type observer struct {
	reporter
	*maintenance.Restorer
	*problems.Checker
}

// newDaemon constructs a daemon on the open parts of its node and on the API's side. The loop
// comes last: every part that requests or awaits passes goes by the node's Progress.
func newDaemon(n *node, c control) *daemon {
	d := &daemon{node: n, control: c}
	d.apiHost = apihost.New(n.cfg.APIServerHost, resolve, n.progress, n.log)
	d.hostLinks = hostlink.New(n.links, hostlink.Config{
		Node: n.cfg.NodeName, Store: n.store, Journal: n.journal, Synced: c.sources.Synced, Port: n.cfg.HostLinkPort,
		Trusted: n.cfg.UnderlayAttachments, Devices: n.cfg.VXLANDevices,
		Every: n.cfg.RecheckEvery, Made: func() { d.restorer.Look() }, Reporter: c.reporter, Log: n.log,
	})
	n.ofLinks = d.hostLinks
	d.attachments = attachment.New(attachment.Config{
		Journal: n.journal, Drivers: n.drivers, Decisions: n.decisions(c, d.apiHost),
		Datapath: reconcile.NewDatapath(n.progress, n.kernel, n.plan, n.store),
		Releaser: release.NewDelayed(n.held, c.releaser, n.progress), Links: d.hostLinks, Devices: n.cfg.devices(),
		Metrics: attachment.NewMetrics(n.registry), Log: n.log,
		Observer: c.reporter, Wait: n.cfg.Wait,
	})
	d.server = cniserver.New(
		cniserver.Config{Manager: d.attachments, Metrics: cniserver.NewMetrics(n.registry), Log: n.log},
	)
	d.proxyHealth = &proxyhealth.Server{Addr: n.cfg.ProxyHealthAddr, State: n.proxyState, Log: n.log}
	d.restorer = maintenance.NewRestorer(maintenance.RestorerConfig{
		Attachments: d.attachments, Reporter: c.reporter, Metrics: n.passes,
		Journal: n.journal, Every: n.cfg.RecheckEvery, Log: n.log,
	})
	lacks := problems.NewLacking(n.cfg.NodeName, n.store, n.kinds, d.hostLinks)
	d.checker = problems.New(problems.Config{
		CNIConfDir: n.cfg.CNIConfDir, Node: d, Journal: n.journal, ProxyHealth: d.proxyHealth, NodeIPAM: n.ports,
		Lacking: lacks, Reporter: c.reporter, Log: n.log,
	})
	rebuilder := maintenance.NewRebuilder(maintenance.RebuilderConfig{
		Plan: n.plan, PinDir: n.cfg.BPFDir, Store: n.store, Attachments: d.attachments, Reporter: c.reporter, Log: n.log,
	})
	d.loop = reconcile.New(reconcile.Config{
		Plan: n.plan, Store: n.store, Kernel: n.kernel, Progress: n.progress,
		Observer: observer{c.reporter, d.restorer, d.checker},
		Metrics:  n.passes, Log: n.log, Every: n.cfg.RecheckEvery, Synced: c.sources.Synced, Rebuilder: rebuilder,
		Journal: n.journal, Held: n.held, Sources: c.sources, APIServers: d.apiHost,
	})
	return d
}

// ExplainLeftOut explains the objects of the API that the node should program and does not:
// objects that its store leaves out, and contradictions in its plan.
func (d *daemon) ExplainLeftOut() []string {
	var list []string
	for _, one := range d.leftOut.LeftOut() {
		list = append(list, one.String())
	}
	for _, what := range d.kernel.LeftOut() {
		list = append(list, "the plan of the node contradicts itself: "+what+"; report this as a fault of Alioth")
	}
	return list
}

// decisions returns the decisions about pods of the node.
func (n *node) decisions(c control, host *apihost.Follower) *decision.Decisions {
	return decision.New(decision.Config{
		Plan: n.plan, APIServers: host, Store: n.store, Pair: n.kind, Held: n.held, Sources: c.sources,
		Sharing: multinet.Sharing{Global: n.cfg.GlobalNamespaces},
		Journal: n.journal, Listens: n.host.Listens,
		Progress: n.progress, NodeMarked: c.announced, Events: c.reporter, Log: n.log,
	})
}

// proxyState returns the state of the node that load balancers outside the cluster read.
func (n *node) proxyState() (s proxyhealth.State) {
	n.store.View(func(tx store.ReadTx) {
		self := store.GetNode(tx, n.cfg.NodeName)
		s.Eligible = self != nil && !self.Deleting && !self.Leaving
	})
	s.Since, s.Programmed = n.progress.Serving()
	return s
}

// resolve resolves a name as the node does.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
