// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/forward/hostlink"
	"github.com/alioth-net/alioth/cnid/forward/monitor"
	"github.com/alioth-net/alioth/cnid/forward/nodeservices"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus/convert"
	"github.com/alioth-net/alioth/cnid/inspect/observe"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/lifecycle/maintenance"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
)

// module is one area of the daemon.
type module struct {
	name string
	// handlers answer at paths of the daemon's socket.
	handlers map[string]http.Handler
	// loops run until ctx ends.
	loops []func(ctx context.Context)
	// servers run until ctx ends, too; the error of a server ends the daemon.
	servers []func(ctx context.Context) error
	// dump adds the module's state to a dump for `aliothctl verify`. A read error does not abort
	// the dump. It may be nil.
	dump func(ctx context.Context, d *nodestatus.Dump)
}

// modules returns the areas of the daemon beside the API's side, in the order of a dump. A new
// area has a package below cnid, and is constructed by a method here. Metrics are registered, so
// this is called once.
func (d *daemon) modules() []module {
	return []module{
		d.statusModule(), d.attachmentsModule(), d.passesModule(), d.servicesModule(), d.packetsModule(), d.linksModule(),
	}
}

// passesModule programs the kernel.
func (d *daemon) passesModule() module {
	watcher := monitor.New(d, d.log)
	return module{
		name:  "passes",
		loops: []func(context.Context){d.loop.Run, d.loop.Survey, d.checker.Run, d.kernel.Sweep, watcher.Run, d.apiHost.Run},
		dump:  func(_ context.Context, dump *nodestatus.Dump) { observe.ReadNode(d.cfg.BPFDir, dump) },
	}
}

// Recheck implements monitor.Node.
func (d *daemon) Recheck() { d.progress.Recheck() }

// Managed implements monitor.Node.
func (d *daemon) Managed() monitor.Managed {
	leaves := func(rec journal.Record) bool { return rec.Phase != journal.PhaseDone }
	return monitor.Managed{
		Records: slices.DeleteFunc(slices.Clone(d.journal.Records()), leaves),
		Devices: d.progress.Devices(),
	}
}

// attachmentsModule serves the container runtime, and maintains its attachments.
func (d *daemon) attachmentsModule() module {
	d.registry.MustRegister(attachment.NewCollector(d.journal))
	resizer := maintenance.NewResizer(maintenance.ResizerConfig{
		Attachments: d.attachments, Journal: d.journal, Progress: d.progress, Log: d.log,
	})
	return module{
		name:     "attachments",
		handlers: map[string]http.Handler{cniapi.PathV1: d.server.Handler()},
		loops: []func(context.Context){d.restorer.Run, resizer.Run, func(ctx context.Context) {
			maintenance.RemoveDead(ctx, d.cfg.ReconcileEvery, d.attachments.Reconcile, d.log)
		}},
		servers: []func(context.Context) error{d.announce},
		dump:    d.dumpAttachments,
	}
}

// servicesModule announces external addresses, ends stale sockets, and answers health checks.
func (d *daemon) servicesModule() module {
	stale := nodeservices.NewStaleSockets(
		d.kernel.StaleSockets,
		d.kernel.ServicesChanged(),
		d.plan.NetnsCookie,
		d.journal,
		d.registry,
		d.log,
	)
	m := module{name: "services", loops: []func(context.Context){d.announcer.Run, stale.Run}}
	if d.cfg.ProxyHealthAddr != "" {
		m.loops = append(m.loops, d.proxyHealth.Run)
	}
	return m
}

// statusModule serves status, health and metrics of the node.
func (d *daemon) statusModule() module {
	d.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: version.Metric, Help: version.MetricHelp, ConstLabels: version.Get().Labels(),
	}, func() float64 { return 1 }))
	return module{
		name:     "status",
		handlers: map[string]http.Handler{nodestatus.Path: nodestatus.Handler(d.status)},
		servers:  []func(context.Context) error{d.serveHTTP},
		dump:     d.dumpStatus,
	}
}

// linksModule makes VLAN and VXLAN links.
func (d *daemon) linksModule() module {
	watch := monitor.LinkWatch{Table: hostlink.TableName, Links: d.hostLinks, Log: d.log}
	return module{name: "host links", loops: []func(context.Context){d.hostLinks.Run, watch.Run}}
}

// packetsModule observes single packets, and counts all of them.
func (d *daemon) packetsModule() module {
	names := observe.NewNames(d.store, d.journal)
	shadows := []netip.Addr{
		journal.NodeShadow(d.cfg.shadow(ipfamily.IPv4)),
		journal.NodeShadow(d.cfg.shadow(ipfamily.IPv6)),
	}
	words := observe.NewWords(names, d.cfg.NodeName, d.cfg.DefaultVPC, shadows)
	d.registry.MustRegister(observe.NewCollector(d.kernel, names, d.kernel.FlowShare, d.log))
	drops := observe.NewPacketLog(words, nil, d.log)
	flows := observe.NewPacketLog(words, d.kernel.TellFlows, d.log)
	tracer := observe.NewTracer(words, d.kernel, d.checker)
	return module{
		name: "packets",
		handlers: map[string]http.Handler{
			nodestatus.DropsPath: drops, nodestatus.FlowsPath: flows,
			nodestatus.TracePath: nodestatus.TraceHandler(tracer.Answer),
		},
		loops: []func(context.Context){
			func(ctx context.Context) { drops.Run(ctx, d.drops.Readers()) },
			func(ctx context.Context) { flows.Run(ctx, d.flows.Readers()) },
		},
	}
}

// status returns the status of this node for `aliothctl status`.
func (d *daemon) status(ctx context.Context) nodestatus.Status {
	synced := broadcast.Gate(d.sources.Synced).IsOpen()
	mtu, _ := d.progress.PodMTU()
	return nodestatus.Status{
		Node: d.cfg.NodeName, Version: version.Get().String(), Plugin: install.PluginVersion(ctx, d.cfg.CNIBinDir),
		Synced: synced, Programmed: mtu != 0, PodMTU: mtu,
		Attachments: convert.Attachments(d.journal.Records()), Releasing: convert.Attachments(d.journal.Releases()),
		Problem: d.progress.Problem(), Warnings: d.checker.Warnings(),
	}
}

// dumpStatus adds the node's status and the configuration of its plan to a dump.
func (d *daemon) dumpStatus(ctx context.Context, dump *nodestatus.Dump) {
	dump.Status, dump.Config = d.status(ctx), convert.Settings(d.plan)
	dump.Tables = convert.Tables(d.sources.Tables())
	dump.Config.Reserved = slices.Concat(d.plan.Reserved, d.apiHost.Addresses())
}

// dumpAttachments adds errors of attachments, and reserved attachments, to a dump.
func (d *daemon) dumpAttachments(ctx context.Context, dump *nodestatus.Dump) {
	dump.Removed = convert.Attachments(d.held.Removed())
	for key, err := range d.attachments.Inspect(ctx) {
		dump.Broken = append(
			dump.Broken,
			nodestatus.Broken{ContainerID: key.ContainerID, IfName: key.IfName, What: err.Error()},
		)
	}
	slices.SortFunc(dump.Broken, func(a, b nodestatus.Broken) int {
		return cmp.Or(cmp.Compare(a.ContainerID, b.ContainerID), cmp.Compare(a.IfName, b.IfName))
	})
}
