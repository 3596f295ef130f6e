// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alioth-net/alioth/cnid/broadcast"
	"github.com/alioth-net/alioth/cnid/decision"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/monitor"
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/nodestatus/convert"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/cnid/proxyhealth"
	"github.com/alioth-net/alioth/store"
)

const (
	// firstRetry and lastRetry bound the wait between failed passes.
	firstRetry = 20 * time.Millisecond
	lastRetry  = 5 * time.Second
	// lasting is how long passes must have failed for STATUS to say so.
	lasting = time.Minute
)

// syncer makes the kernel hold what store and journal say.
type syncer struct {
	cfg     plan.Config
	store   *store.Store
	journal *journal.Journal
	kernel  *kernel
	// synced reports whether what is on this node has been read from the API.
	synced func() (bool, <-chan struct{})
	// adopt takes into the journal what is on the node and not in it, which the
	// first pass would otherwise cut off, and returns how much it can't; adopted
	// says that it has looked, unknown that something was left.
	adopt   func(context.Context) (int, error)
	adopted atomic.Bool
	unknown bool
	// follows are the names of the VPCs of which a pass may come to program
	// something.
	follows func() []string
	// lost tells people about an attachment that has lost its addresses.
	lost func(plan.Lost)
	// closed tells them about a port of the node that a running pod does not have.
	closed  func(plan.ClosedPort)
	metrics *syncMetrics
	log     *slog.Logger
	// every is how often a pass looks at devices, and a survey at the rest of the
	// kernel, whether or not something changed.
	every time.Duration
	// departed are the records of attachments that are gone and that the kubelet may
	// still probe.
	departed func() []journal.Record
	// reserved are addresses of API servers, beside those that cfg knows.
	reserved func() []netip.Addr
	// observe is told what passes found; nil tells nobody.
	observe observer
	// problemBeside is what is wrong with what load balancers outside ask, or "".
	problemBeside func() string
	doubts        chan doubt // at most one: what the last pass wants to have looked into

	// planning is held while a pass decides what to program, and guards planner
	// and vnis: those that the kernel has and those that the pass is about to add.
	planning sync.Mutex
	vnis     map[uint32]bool
	planner  plan.Planner
	existing existing
	// told are the reasons that lost was told, by device, and toldClosed what closed was.
	told       map[int]string
	toldClosed map[plan.ClosedPort]bool

	mu sync.Mutex
	// hinted says that the next pass is to look at everything.
	hinted bool
	// asked counts the requests for a pass; programmed is the count that the
	// last pass included which did not fail for the node as a whole.
	asked, programmed uint64
	// failed are the devices that this pass could not set up or refused.
	failed map[int]error
	// passing is since when a pass is under way, done when the last one succeeded.
	passing, done time.Time
	// lastError of the passes since failing, which is zero after a success; the
	// failures of single devices are not among them. problem has those as well.
	lastError, problem error
	failing            time.Time
	// warnings are the problems beside that of a failing pass.
	warnings []string
	// devices are the indexes of those that exist always, and of the underlay.
	devices []int
	// mtu for pods, 0 before the first successful pass.
	mtu int
	// asking and passed are sent with a request and with the end of a pass.
	asking, passed broadcast.Signal
}

func newSyncer(cfg plan.Config, s *store.Store, j *journal.Journal, k *kernel, synced func() (bool, <-chan struct{}),
	lost func(plan.Lost), metrics *syncMetrics, log *slog.Logger,
) *syncer {
	return &syncer{
		cfg: cfg, store: s, journal: j, kernel: k, synced: synced, lost: lost, metrics: metrics, log: log, every: DefaultRecheck,
		departed: func() []journal.Record { return nil }, reserved: func() []netip.Addr { return nil }, closed: func(plan.ClosedPort) {},
		problemBeside: func() string { return "" },
		vnis:          map[uint32]bool{}, doubts: make(chan doubt, 1),
	}
}

// Program implements attachment.Datapath.
func (s *syncer) Program(ctx context.Context, rec journal.Record) error {
	return s.settle(ctx, s.ask(), rec.Device.HostIfindex)
}

// Unprogram implements attachment.Datapath. Before the first pass of this
// process there is nothing to wait for: what an earlier one programmed leads
// to a device that is about to go, and the first pass removes it.
func (s *syncer) Unprogram(ctx context.Context, _ journal.Record) error {
	if mtu, _ := s.PodMTU(); mtu == 0 {
		s.ask()
		return nil
	}
	return s.settle(ctx, s.ask(), 0)
}

// Check implements attachment.Datapath.
func (s *syncer) Check(rec journal.Record) error {
	return s.kernel.check(plan.Programmed(rec, s.cfg.Kinds[rec.Kind].Hook))
}

// Ready implements attachment.Datapath.
func (s *syncer) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastError == nil || time.Since(s.failing) < lasting {
		return nil
	}
	return fmt.Errorf("programming the node has failed for %s: %w", time.Since(s.failing).Round(time.Second), s.lastError)
}

// PodMTU returns the MTU for pods, 0 before the first successful pass, and a
// channel that is closed when it may have changed.
func (s *syncer) PodMTU() (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mtu, s.passed.Next()
}

// proxyHealth is what load balancers outside are told of the node. It serves as long as
// passes have not failed, and none has hung, for a time that STATUS gives them too.
func (s *syncer) proxyHealth() proxyhealth.State {
	state := proxyhealth.State{}
	s.store.View(func(tx store.ReadTx) {
		self := store.GetNode(tx, s.cfg.Node)
		state.Eligible = self != nil && !self.Deleting && !self.Leaving
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	late := func(since time.Time) bool { return !since.IsZero() && time.Since(since) >= lasting }
	state.Since, state.Programmed = s.done, s.mtu != 0 && !late(s.failing) && !late(s.passing)
	return state
}

// keptBy says what keeps the kernel from being programmed now, or "".
func (s *syncer) keptBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem == nil {
		return ""
	}
	return s.problem.Error()
}

// status is what people are told of this node.
func (s *syncer) status() nodestatus.Status {
	synced, _ := s.synced()
	problem := s.keptBy()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := nodestatus.Status{
		Node: s.cfg.Node, Synced: synced, Programmed: s.mtu != 0, PodMTU: s.mtu,
		Attachments: convert.Attachments(s.journal.Records()), Releasing: convert.Attachments(s.journal.Releases()), Problem: problem, Warnings: s.warnings,
	}
	return status
}

// ask requests a pass and returns the number that it will have programmed.
func (s *syncer) ask() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.asking.Send()
	return s.asked
}

// recheck requests a pass that looks at everything in the kernel.
func (s *syncer) recheck() {
	s.mu.Lock()
	s.hinted = true
	s.mu.Unlock()
	s.ask()
}

// managed is what only Alioth changes.
func (s *syncer) managed() monitor.Managed {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaves := func(rec journal.Record) bool { return rec.Phase != journal.PhaseDone }
	return monitor.Managed{Records: slices.DeleteFunc(slices.Clone(s.journal.Records()), leaves), Devices: s.devices}
}

// takeHint reports whether recheck was called since the last time.
func (s *syncer) takeHint() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	hinted := s.hinted
	s.hinted = false
	return hinted
}

// settle returns once a pass that was asked for with that number, or a later
// one, has succeeded, and the last one with this device; 0 stands for none.
// Until then, those that fail are followed by others.
func (s *syncer) settle(ctx context.Context, number uint64, device int) error {
	for {
		s.mu.Lock()
		done, passed, failure := s.programmed >= number, s.passed.Next(), errors.Join(s.failed[device], s.lastError)
		done = done && s.failed[device] == nil
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the datapath: %w", errors.Join(ctx.Err(), failure))
		}
	}
}

// Programmed returns once a pass that begins from now on has succeeded.
func (s *syncer) Programmed(ctx context.Context) error { return s.settle(ctx, s.ask(), 0) }

// run makes passes until ctx ends: after a request, after a change of the
// store, after a failure, and now and then.
func (s *syncer) run(ctx context.Context) {
	retry := firstRetry
	var lastThorough time.Time
	for ctx.Err() == nil {
		if !s.awaitSync(ctx) {
			return
		}
		look := s.scope(lastThorough)
		if err := s.complete(ctx, look.thorough()); err != nil {
			s.log.Warn("can't compare the journal with the node; trying again", "error", err, "after", lastRetry)
			s.rest(ctx, lastRetry)
			continue
		}
		began := time.Now()
		last := s.pass(look)
		s.tellLost(last.lost)
		s.tellClosed(last)
		s.metrics.since(stepTotal, began)
		s.finish(last)
		s.tell(last, look.thorough())
		if look.thorough() {
			lastThorough = began
		}
		pause := time.Until(lastThorough.Add(s.every))
		if last.failure() == nil {
			retry = firstRetry
		} else {
			s.log.Warn("can't program the node; trying again", "error", last.failure(), "after", retry)
			pause, retry = min(pause, retry), min(2*retry, lastRetry)
		}
		if last.err != nil {
			// Whatever is asked meanwhile would fail as well.
			lastThorough = time.Time{}
			s.rest(ctx, pause)
			continue
		}
		s.idle(ctx, last, pause)
	}
}

// complete makes sure once that the journal has everything that is here, and
// looks now and then for what was left.
func (s *syncer) complete(ctx context.Context, thorough bool) error {
	if s.adopted.Load() && (!s.unknown || !thorough) {
		return nil
	}
	left, err := s.adopt(ctx)
	if err != nil {
		return err
	}
	s.unknown = left > 0
	s.adopted.Store(true)
	return nil
}

func (s *syncer) rest(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// awaitSync blocks until everything that is on this node has been read. With
// less, a pass would take away what an earlier process had programmed.
func (s *syncer) awaitSync(ctx context.Context) bool {
	for {
		synced, changed := s.synced()
		if synced {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// idle returns when there is something to do.
func (s *syncer) idle(ctx context.Context, last outcome, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	// The error says that the time is up, which is a reason to go on.
	_ = s.store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		ws.Add(s.asking.Next())
		return s.asked != last.upTo || tx.Revision() != last.revision
	})
}

// pass programs what is wanted now.
func (s *syncer) pass(look scope) (o outcome) {
	s.mu.Lock()
	o.upTo, s.passing = s.asked, time.Now()
	s.mu.Unlock()
	var internalIPs []netip.Addr
	s.store.View(func(tx store.ReadTx) {
		o.revision = tx.Revision()
		if self := store.GetNode(tx, s.cfg.Node); self != nil {
			internalIPs = self.Addresses
			s.kernel.pods.Store(self.Pods)
			s.kernel.kubeletPort = self.KubeletPort
		}
	})
	began := time.Now()
	if o.err = s.kernel.prepare(internalIPs, look.thorough()); o.err != nil {
		return o
	}
	s.metrics.since(stepPrepare, began)
	// The journal before the devices: a device is made before its record is
	// complete, so a complete record's device is among them.
	began = time.Now()
	input := plan.Input{Config: s.cfg, Records: s.journal.Records(), NodePeer: s.kernel.indexes.NodePeer}
	input.Departed = s.departed() // behind the records, out of which they come
	input.Reserved = slices.Concat(s.cfg.Reserved, s.reserved())
	if o.err = s.existing.look(s.kernel.host, input.Records, look.thorough()); o.err != nil {
		return o
	}
	input.Devices = s.existing.devices
	o.missing = missing(input.Records, input.Devices)
	var want plan.Wanted
	want, o.revision = s.plan(input)
	s.metrics.since(stepPlan, began)
	o.lost, o.closed = want.Lost, want.ClosedPorts
	if o.failed, o.err = s.kernel.apply(want, look); o.err == nil {
		s.holds(want)
	}
	if o.failure() != nil {
		s.existing = existing{} // one of them may have gone
	}
	return o
}

// plan decides what to program, and says so in vnis before anything is done.
func (s *syncer) plan(input plan.Input) (want plan.Wanted, revision uint64) {
	s.planning.Lock()
	defer s.planning.Unlock()
	s.store.View(func(tx store.ReadTx) {
		revision = tx.Revision()
		want = s.planner.Plan(tx, input)
	})
	maps.Copy(s.vnis, vnisOf(want))
	return want, revision
}

// holds notes what the kernel has.
func (s *syncer) holds(want plan.Wanted) {
	s.planning.Lock()
	defer s.planning.Unlock()
	s.vnis = vnisOf(want)
}

func vnisOf(want plan.Wanted) map[uint32]bool {
	vnis := map[uint32]bool{}
	for vni := range want.Datapath.VPCs {
		vnis[vni] = true
	}
	delete(vnis, 0) // what belongs to no VPC
	return vnis
}

// VNIs returns every one that the node programs, has an attachment of, or may
// come to have by what it has read so far; ascending.
func (s *syncer) VNIs() []uint32 {
	s.planning.Lock()
	defer s.planning.Unlock()
	all := maps.Clone(s.vnis)
	for _, rec := range s.journal.Records() {
		all[rec.VNI] = true
	}
	s.store.View(func(tx store.ReadTx) {
		for _, name := range s.follows() {
			if vpc := store.GetVPC(tx, name); vpc != nil {
				all[vpc.VNI] = true
			}
		}
	})
	delete(all, 0) // of a VPC that has none yet
	return slices.Sorted(maps.Keys(all))
}

// missing are the records whose device on the node should be there and is not.
func missing(records []journal.Record, devices map[string]int) []journal.Record {
	var list []journal.Record
	for _, rec := range records {
		if _, ok := devices[rec.HostIfName]; !ok && rec.HostIfName != "" && rec.Phase == journal.PhaseDone {
			list = append(list, rec)
		}
	}
	return list
}

// finish tells those who wait how the pass went.
func (s *syncer) finish(o outcome) {
	problem := o.failure()
	if problem != nil {
		s.metrics.failures.Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passing = time.Time{}
	if o.err == nil {
		s.done = time.Now()
		s.programmed, s.failing, s.mtu = o.upTo, time.Time{}, s.kernel.underlay.PodMTU
		s.failed = map[int]error{}
		maps.Copy(s.failed, o.failed)
		for _, l := range o.lost {
			s.failed[l.Record.Device.HostIfindex] = fmt.Errorf("%w: %s", decision.ErrLost, l.Reason)
		}
	} else if s.lastError == nil {
		s.failing = time.Now()
	}
	s.lastError, s.problem = o.err, problem
	k := s.kernel
	s.devices = []int{k.indexes.Tunnel, k.indexes.Node, k.indexes.NodePeer, k.indexes.Fragment, k.indexes.FragmentPeer, k.underlay.Ifindex}
	s.passed.Send()
}

// awaitFirst returns true once a pass has succeeded, or false when ctx ends.
func (s *syncer) awaitFirst(ctx context.Context) bool {
	for {
		mtu, passed := s.PodMTU()
		if mtu != 0 {
			return true
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return false
		}
	}
}
