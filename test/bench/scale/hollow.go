// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/cnid"
	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/cluster/roles"
	"github.com/alioth-net/alioth/cnid/cluster/rollcall"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/decision"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/reconcile"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
)

const (
	// establishWithin limits how long an ADD waits: longer than all that a run creates at
	// once takes.
	establishWithin = 5 * time.Minute
	// ownNetns stands for the network namespace of every pod.
	ownNetns = "/proc/self/ns/net"
)

// hollow is a node with the daemon's control half: sources, store, decisions, journal, manager of
// attachments, planner, passes and roll call. Fakes stand in for the parts that program the kernel
// and make interfaces, and the container runtime asks for every pod at once.
type hollow struct {
	*node
	programmer  *programmer
	attachments *attachment.Manager
	progress    *reconcile.Progress
	loop        *reconcile.Loop
	roll        *rollcall.RollCall
	// asked has the UIDs of pods that the runtime has asked for.
	asked map[string]bool
	// failed has the first errors of attachments.
	mu     sync.Mutex
	failed []error
}

// newHollow returns a hollow node that follows nothing yet, with its files in a folder. The
// caller closes it. watched is the VNI whose addresses it notes.
func newHollow(ctx context.Context, name string, via access, folder string, watched uint32, log *slog.Logger) (*hollow, error) {
	shadows := cnid.DefaultConfig().Shadows
	if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of node %s: %w", name, err)
	}
	j, err := journal.Open(ctx, journal.Config{Path: filepath.Join(folder, name, "journal"), Shadow4: shadows[0], Shadow6: shadows[1], Log: log})
	if err != nil {
		return nil, err
	}
	progress := &reconcile.Progress{}
	n, err := newNode(name, via, j, func(kind *descriptor.Kind) *descriptor.Kind { return kind }, progress, log)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	h := &hollow{node: n, progress: progress, programmer: &programmer{watched: watched, known: map[place]time.Time{}}, asked: map[string]bool{}}
	h.assemble()
	return h, nil
}

// assemble makes the daemon's parts as it does.
func (h *hollow) assemble() {
	cfg := h.cfg.Plan(drivers.All().Catalog())
	registry, progress := prometheus.NewRegistry(), h.progress
	held := release.NewHeld(h.journal)
	decisions := decision.New(decision.Config{
		Plan: cfg, APIServers: ignored{}, Store: h.store, Pair: drivers.DefaultPair, Held: held, Sources: h.sources,
		Journal: h.journal, Listens: func(uint8, netip.Addr, uint16) (bool, error) { return false, nil },
		Progress: progress, NodeMarked: broadcast.Open, Events: ignored{}, Log: h.log,
	})
	h.attachments = attachment.New(attachment.Config{
		Journal: h.journal, Drivers: ifdriver.Drivers{drivers.DefaultPair: driver{}}, Decisions: decisions,
		Datapath: reconcile.NewDatapath(progress, nil, cfg, h.store), Releaser: ignored{}, Metrics: attachment.NewMetrics(registry), Log: h.log,
		Wait: establishWithin,
	})
	h.loop = reconcile.New(reconcile.Config{
		Plan: cfg, Store: h.store, Kernel: h.programmer, Progress: progress, Observer: ignored{}, Metrics: reconcile.NewMetrics(registry), Log: h.log,
		Every: h.cfg.RecheckEvery, Synced: h.sources.Synced, Rebuilder: ignored{},
		Journal: h.journal, Held: held, Sources: h.sources, APIServers: ignored{},
	})
	passes := struct {
		*reconcile.Progress
		*reconcile.Loop
	}{progress, h.loop}
	h.roll = rollcall.New(h.name, h.store, h.journal, h.api, h.sources.VPCsRead, passes, h.size, time.Minute, h.log)
	h.roles = roles.New(h.name, h.api, h.store, progress.Roles, h.size, h.log)
}

// start starts the loops of the node, which end with ctx.
func (h *hollow) start(ctx context.Context, group *errgroup.Group) {
	h.sources.Start(ctx)
	run(ctx, group, h.sources.Run, h.loop.Run, h.roll.Run, h.roles.Run, h.runtime)
}

// runtime asks for the interface of every pod that is bound to the node.
func (h *hollow) runtime(ctx context.Context) {
	var group errgroup.Group
	for ctx.Err() == nil {
		var pods []*store.Pod
		// An error means that ctx has ended.
		_ = h.store.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
			for row := range store.AllPods(tx) {
				if !h.asked[row.UID] {
					pods = append(pods, row)
				}
			}
			return len(pods) > 0
		})
		for _, pod := range pods {
			h.asked[pod.UID] = true
			group.Go(func() error { h.add(ctx, pod); return nil })
		}
	}
	_ = group.Wait() // its functions return no error
}

// add is the ADD of a pod.
func (h *hollow) add(ctx context.Context, pod *store.Pod) {
	_, err := h.attachments.Establish(ctx, attachment.Request{
		Key: journal.Key{ContainerID: pod.UID, IfName: "eth0"}, Network: "alioth", NetnsPath: ownNetns,
		Pod: journal.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	})
	if err != nil && ctx.Err() == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.failed = append(h.failed, fmt.Errorf("attach pod %s/%s to node %s: %w", pod.Namespace, pod.Name, h.name, err))
	}
}

// attached returns the number of pods that are attached; the error has the attachments that
// failed.
func (h *hollow) attached() (int, error) {
	count := 0
	for _, rec := range h.journal.Records() {
		if rec.Phase == journal.PhaseDone {
			count++
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return count, errors.Join(h.failed...)
}

// driver makes no interfaces, and describes interfaces that it would have made.
type driver struct{}

// Capabilities implements ifdriver.Driver.
func (driver) Capabilities() ifdriver.Capabilities {
	return drivers.All().Catalog()[drivers.DefaultPair]
}

// HostName implements ifdriver.Driver.
func (driver) HostName(containerID, ifName string) string {
	return ifdriver.DeviceName("ali", containerID, ifName)
}

// Attach implements ifdriver.Driver.
func (d driver) Attach(_ context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	return d.link(spec), nil
}

// Check implements ifdriver.Driver.
func (d driver) Check(_ context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	return d.link(spec), nil
}

func (d driver) link(spec ifdriver.Spec) ifdriver.Link {
	name := d.HostName(spec.ContainerID, spec.IfName)
	cookie := fnv.New64a()
	_, _ = cookie.Write([]byte(spec.ContainerID)) // never fails
	return ifdriver.Link{HostIfName: name, HostIfindex: indexOf(name), HostMAC: spec.MAC, NetnsInode: cookie.Sum64(), NetnsCookie: cookie.Sum64()}
}

// Detach implements ifdriver.Driver.
func (driver) Detach(context.Context, string, string) error { return nil }

// Resize implements ifdriver.Driver.
func (driver) Resize(context.Context, ifdriver.Spec) error { return nil }

// List implements ifdriver.Driver.
func (driver) List(context.Context) ([]ifdriver.Found, error) { return nil, nil }

// Close implements ifdriver.Driver.
func (driver) Close() {}

// indexOf returns the index of the device with a name, above the indexes that always exist.
func indexOf(name string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return int(hash.Sum32()>>2) + 16
}

// ignored takes the reports and releases of a daemon.
type ignored struct{}

// Release implements attachment.Releaser.
func (ignored) Release(journal.Record) {}

func (ignored) Rebuild(context.Context) (int, error) { return 0, nil }

func (ignored) Addresses() []netip.Addr { return nil }

// Refused implements decision.Events.
func (ignored) Refused(journal.Pod, string, string) {}

// Lost implements reconcile.Observer.
func (ignored) Lost(plan.Lost) {}

// Closed implements reconcile.Observer.
func (ignored) Closed(plan.ClosedPort) {}

// Repaired implements reconcile.Observer.
func (ignored) Repaired([]finding.Repair) {}

// Missing implements reconcile.Observer.
func (ignored) Missing([]journal.Record) {}

// Check implements reconcile.Observer.
func (ignored) Check(error, foreign.Traffic, int) {}
