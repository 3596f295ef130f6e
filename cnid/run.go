// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/cnid/cluster/linkreport"
	"github.com/alioth-net/alioth/cnid/cluster/networkstatus"
	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/cluster/report"
	"github.com/alioth-net/alioth/cnid/cluster/rollcall"
	"github.com/alioth-net/alioth/cnid/cluster/subscriptions"
	"github.com/alioth-net/alioth/cnid/cni/cniserver"
	"github.com/alioth-net/alioth/cnid/forward/reconcile"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/lifecycle/maintenance"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/reflector"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Run runs the daemon. It ends with ctx, or with a permanent error. An unreachable API server is
// not an error.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	if err := cfg.check(); err != nil {
		return err
	}
	config, err := apiConfig(cfg)
	if err != nil {
		return err
	}
	api, err := newClient(config)
	if err != nil {
		return err
	}
	delegates, err := newDelegates(cfg, log)
	if err != nil {
		return err
	}
	n, err := newNode(ctx, cfg, cfg.withNodeIPAM(delegates.registry(cfg.drivers())), log)
	if err != nil {
		return err
	}
	defer n.close()
	rowSet := reflector.NewSet(n.store, api, log)
	n.registry.MustRegister(descriptor.NewCollector("alioth_cnid_objects_left_out", rowSet))
	sources := subscriptions.New(
		subscriptions.Config{
			Node:            cfg.NodeName,
			DefaultVPC:      cfg.DefaultVPC,
			NodePorts:       cfg.NodePorts,
			ScaledEndpoints: cfg.ScaledEndpoints,
			Kinds:           cfg.Kinds(),
			Passes:          n.progress,
		},
		api,
		rowSet,
		n.store,
		n.journal,
		log,
	)
	reporter := report.New(cfg.NodeName, api, n.store, cfg.ReviewEvery, log)
	known := facts{n.held, sources, n.progress}
	releaser := release.New(cfg.NodeName, n.store, n.journal, api, known, log)
	statuses := networkstatus.New(
		networkstatus.Config{
			API:       api,
			Store:     n.store,
			Synced:    sources.Synced,
			Journal:   n.journal,
			Knowledge: cfg.knowledge(delegates, log),
			Log:       log,
		},
	)
	links := linkreport.New(cfg.NodeName, api, n.store, log)
	d := newDaemon(n, control{
		sources: sources, leftOut: rowSet, releaser: releaser, reporter: reporting{reporter, links, statuses},
		announced: reporter.NodeMarked,
		api:       config,
	})
	group, ctx := errgroup.WithContext(ctx)
	sources.Start(ctx)
	rows := d.cachedRows(api, sources)
	modules := append(
		d.modules(),
		d.apiModule(sources, d.rollCall(api, sources, rows), releaser, reporter),
		d.rolesModule(api, rows),
		module{
			name: "network status", loops: []func(context.Context){statuses.Run},
		},
		module{
			name: "report about host links", loops: []func(context.Context){links.Run, func(ctx context.Context) {
				delegates.configured(ctx, links.Configured, log)
			}},
		},
	)
	own, err := d.networkModules(api, sources, reporter)
	if err != nil {
		return err
	}
	others, err := d.nodeIPAMModules(api, known.Complete)
	if err != nil {
		return err
	}
	return d.run(ctx, group, slices.Concat(modules, own, others))
}

// facts implements release.Facts.
type facts struct {
	*release.Held
	sources  *subscriptions.Sources
	progress *reconcile.Progress
}

// Complete implements release.Facts. With an incomplete journal, addresses in use would be
// released.
func (f facts) Complete() bool { return f.sources.BaseSynced() && f.progress.Adopted() }

// reporting reports failures of host links in two ways: to people, and to the operator.
type reporting struct {
	*report.Reporter
	links    *linkreport.Reporter
	statuses *networkstatus.Reporter
}

// Attached implements reporter.
func (r reporting) Attached(pod journal.Pod) { r.statuses.Attached(pod) }

// LinksFailed implements reporter.
func (r reporting) LinksFailed(list []multinet.LinkFailure) {
	r.Reporter.LinksFailed(list)
	r.links.Failed(list)
}

// LinksAddressed implements reporter.
func (r reporting) LinksAddressed(list []multinet.DeviceAddrs) { r.links.Addressed(list) }

// apiModule keeps the store equal to the API, and reports the node's state to the API.
func (d *daemon) apiModule(
	sources *subscriptions.Sources,
	roll *rollcall.RollCall,
	releaser *release.Releaser,
	reporter *report.Reporter,
) module {
	return module{
		name: "api",
		loops: []func(context.Context){sources.Run, releaser.Run, roll.Run, reporter.Run, func(ctx context.Context) {
			if d.progress.AwaitFirst(ctx) {
				reporter.Programmed()
			}
		}},
	}
}

// run removes the remains of attachments, and runs modules until ctx ends or one of them fails
// for good.
func (d *daemon) run(ctx context.Context, group *errgroup.Group, modules []module) error {
	removed := maintenance.RemoveLeftOver(ctx, d.attachments.Reconcile, d.log)
	group.Go(func() error { <-removed; return nil }) // removals use resources that the caller closes
	if err := d.start(ctx, group, modules); err != nil {
		err = errors.Join(err, context.Cause(ctx))
		group.Go(func() error { return err })
	}
	return group.Wait()
}

// start listens at the daemon's socket and starts modules.
func (d *daemon) start(ctx context.Context, group *errgroup.Group, modules []module) error {
	listener, err := cniserver.Listen(d.cfg.socket())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(
		nodestatus.DumpPath,
		nodestatus.Handler(func(ctx context.Context) nodestatus.Dump { return dump(ctx, modules) }),
	)
	mux.Handle(metricsPath, d.metrics())
	for _, m := range modules {
		d.log.Debug("starting a module", "module", m.name)
		for path, handler := range m.handlers {
			mux.Handle(path, handler)
		}
		for _, serve := range m.servers {
			group.Go(func() error { return serve(ctx) })
		}
		for _, loop := range m.loops {
			group.Go(func() error { loop(ctx); return nil })
		}
	}
	group.Go(func() error { return cniserver.Serve(ctx, listener, d.cfg.socket(), mux, d.server.Ready, d.log) })
	return nil
}

// dump collects the modules' state of the node.
func dump(ctx context.Context, modules []module) (d nodestatus.Dump) {
	for _, m := range modules {
		if m.dump != nil {
			m.dump(ctx, &d)
		}
	}
	return d
}

// announce writes the CNI configuration once the node is programmed, so that the container
// runtime calls this daemon. ADDs also wait until the API knows of the daemon.
func (d *daemon) announce(ctx context.Context) error {
	if !d.progress.AwaitFirst(ctx) {
		return nil
	}
	if err := install.WriteConflist(d.cfg.CNIConfDir, d.cfg.socket()); err != nil {
		return err
	}
	d.log.Info("node is ready for pods", "node", d.cfg.NodeName)
	return nil
}
