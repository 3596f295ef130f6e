// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator assembles the operator, which assigns VNIs and addresses to VPCs,
// pods and Services, and records them in API objects. It has no state of its own, so it
// can end at any moment and be started anywhere.
package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/alioth-net/alioth/operator/feed"
)

// errEnded is the logged error of a manager that ended without one.
var errEnded = errors.New("the manager ended")

// gracePeriod is how long running workers may take to end.
const gracePeriod = 5 * time.Second

// Run runs the operator until ctx ends. The loss of the lease or the API server does
// not end it: it stops writing and takes part in the next election. It returns an error
// only if an administrator has to correct the cause.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	restConfig, err := cfg.rest()
	if err != nil {
		return err
	}
	return run(ctx, cfg, restConfig, log)
}

// process has the parts of an operator that outlive its terms.
type process struct {
	cfg     Config
	rest    *rest.Config
	metrics *metricSet
	state   *state
	// identity in the Lease. It does not change, so that after an outage the process
	// can renew its lease without waiting for its end.
	identity string
	log      *slog.Logger
}

func run(ctx context.Context, cfg Config, restConfig *rest.Config, log *slog.Logger) error {
	if cfg.LeaderElect && cfg.Namespace == "" {
		return errors.New("no namespace for the lease: give --namespace, or set POD_NAMESPACE")
	}
	if err := listPlainly(); err != nil {
		return err
	}
	s := &state{}
	m, err := newMetrics(s)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name: %w", err)
	}
	p := &process{cfg: cfg, rest: restConfig, metrics: m, state: s, identity: host + "_" + rand.Text(), log: log}
	stop, err := serve(ctx, cfg, restConfig, m, p.state, log)
	if err != nil {
		return err
	}
	defer stop()
	p.serveTerms(ctx)
	return nil
}

// serveTerms starts a new term after every one, until ctx ends.
func (p *process) serveTerms(ctx context.Context) {
	pause := newPause()
	for {
		began := time.Now()
		err := p.term(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			pause = newPause() // the term had succeeded
		}
		p.log.Error("standing up again", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.Step()):
		}
	}
}

func newPause() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 4, Cap: 10 * time.Second}
}

// term runs one manager, from an empty store to the loss of the lease or of the
// API server.
func (p *process) term(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.metrics.terms.Inc()
	if err := checkServer(ctx, p.rest); err != nil {
		return err
	}
	lock, err := p.lock(ctx, cancel)
	if err != nil {
		return err
	}
	if lock != nil {
		defer lock.end()
	}
	mgr, err := p.newManager(ctx, lock)
	if err != nil {
		return err
	}
	env := managed(mgr)
	fed, missing, err := assemble(ctx, env, p.cfg, p.metrics)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		go p.endWithKinds(ctx, missing, env.kinds, cancel)
	}
	if p.cfg.Garbage != nil {
		go p.cfg.Garbage.Limit(ctx, fed.WaitForSync)
	}
	go fed.Fill(ctx)
	p.state.set(fed, lock)
	defer p.state.clear()
	go func() {
		select {
		case <-mgr.Elected():
			p.log.Info("leading")
			p.metrics.leader.Set(1)
		case <-ctx.Done():
		}
	}()
	defer p.metrics.leader.Set(0)
	if err := cmp.Or(mgr.Start(ctx), lock.ending()); err != nil {
		return err
	}
	return errEnded
}

// lock returns the lease of a new term. end ends the term, and the lease is followed until ctx
// ends. lock returns nil without leader election.
func (p *process) lock(ctx context.Context, end func()) (*lease, error) {
	if !p.cfg.LeaderElect {
		return nil, nil
	}
	lock, err := newLease(ctx, p.rest, p.cfg, p.identity, end)
	if err != nil {
		return nil, fmt.Errorf("prepare the lease: %w", err)
	}
	return lock, nil
}

// newManager returns the manager of a new term, which ends with ctx. lock is nil without leader
// election.
func (p *process) newManager(ctx context.Context, lock *lease) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	options := manager.Options{
		Scheme:                        scheme,
		Logger:                        logr.FromSlogHandler(p.log.Handler()),
		Cache:                         cache.Options{DefaultTransform: feed.Keep},
		NewCache:                      newEndingCache(ctx),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		LeaderElection:                lock != nil,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(p.cfg.LeaseDuration),
		RenewDeadline:                 ptr.To(p.cfg.renewDeadline()),
		RetryPeriod:                   ptr.To(p.cfg.lookPeriod()),
		GracefulShutdownTimeout:       ptr.To(gracePeriod),
		// Controllers of an earlier term had the same names.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	restConfig := rest.CopyConfig(p.rest)
	restConfig.Wrap(newPresentLists)
	// The API server warns with every write of Endpoints that they are deprecated.
	restConfig.WarningHandlerWithContext = ctrllog.NewKubeAPIWarningLogger(
		ctrllog.KubeAPIWarningLoggerOptions{Deduplicate: true},
	)
	if lock != nil {
		options.LeaderElectionResourceLockInterface = lock
		restConfig.Wrap(lock.guard)
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	return mgr, nil
}
