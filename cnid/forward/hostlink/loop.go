// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostlink makes the VLAN and VXLAN links of a node that HostLink objects demand,
// and keeps them (docs/design/116). Package links decides; this package changes devices,
// forwarding entries, and the filter before the UDP port of VXLAN links.
package hostlink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// DefaultPort is the UDP port of VXLAN links. IANA has assigned it to nobody, and it is
// outside of the usual ranges of NodePorts and of source ports. On many nodes other VXLAN
// devices use the ports 4789 and 8472, and VXLAN-GPE uses 4790.
const DefaultPort = 14789

// Config configures a Loop. All fields except Devices are required.
type Config struct {
	// Node is the name of the node.
	Node  string
	Store *store.Store
	// Journal has the node's attachments.
	Journal journal.Reader
	// Synced reports whether everything of this node has been read. Before, nothing is
	// changed: links, their entries and the filter are as the last daemon left them.
	Synced broadcast.Gate
	// Port is the UDP port of VXLAN links.
	Port uint16
	// Trusted: pods on a device are trusted as the node is.
	Trusted bool
	// Devices are the names of the devices that may have VXLANs without an InternalIP of the
	// node.
	Devices []string
	// Every is the interval at which links are compared without a reason.
	Every time.Duration
	// Made is called after a pass that made a link. If the link had been there before, the
	// interfaces on it went with it. It must not block.
	Made     func()
	Reporter Reporter
	Log      *slog.Logger
}

// Reporter is called after a pass that changed what it reports. It must not block.
type Reporter interface {
	// LinksFailed has all failures that there are.
	LinksFailed([]multinet.LinkFailure)
	// LinksAddressed has the addresses of VXLANs that the other nodes have to be told.
	LinksAddressed([]multinet.DeviceAddrs)
}

// Loop makes the links of a node, and makes them again after changes by others.
type Loop struct {
	cfg    Config
	kernel *Kernel
	// changed is sent when somebody has changed the node's devices.
	changed broadcast.Signal

	// passing is held during a pass.
	passing sync.Mutex
	// mu guards the result of the last pass, and what it was made from.
	mu       sync.Mutex
	last     links.State
	plan     links.Plan
	failures []multinet.LinkFailure
	reported bool
}

// New returns a Loop for the links of a kernel.
func New(kernel *Kernel, cfg Config) *Loop { return &Loop{cfg: cfg, kernel: kernel} }

// Run keeps the links until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	if !l.cfg.Synced.Wait(ctx) {
		return
	}
	for ctx.Err() == nil {
		changed := l.changed.Next()
		if err := l.Pass(); err != nil {
			l.cfg.Log.Warn("can't keep all host links; trying again", "error", err)
		}
		l.wait(ctx, changed)
	}
}

// wait returns when there is a reason for a pass, or after the interval.
func (l *Loop) wait(ctx context.Context, changed <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Every)
	defer cancel()
	woken := false
	// An error means that it is time for a pass, or to end.
	_ = l.cfg.Store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		select {
		case <-changed:
			woken = true
		default:
		}
		ws.Add(changed)
		return woken || !l.demanded(tx).Equal(l.lastState())
	})
}

func (l *Loop) demanded(tx store.ReadTx) links.State {
	s := links.StateOf(tx, l.cfg.Node, l.cfg.Journal.Records())
	s.Listed = l.cfg.Devices
	if l.cfg.Trusted {
		s.Direct = nil
	}
	return s
}

func (l *Loop) lastState() links.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// errUnread reports that the API has not been read yet.
var errUnread = errors.New("the daemon has not read the API yet, and makes the links of the node afterwards")

// Pass compares the node with what it has to have, and changes the difference. An error of
// one link does not keep the others from their changes. Before the API has been read, the
// nodes and links of the cluster are unknown, and Pass is an errUnread.
func (l *Loop) Pass() error {
	l.passing.Lock()
	defer l.passing.Unlock()
	if !l.cfg.Synced.IsOpen() {
		return errUnread
	}
	var want links.State
	l.cfg.Store.View(func(tx store.ReadTx) { want = l.demanded(tx) })
	devices, err := l.kernel.devices(len(want.Wanted) > 0)
	if err != nil {
		return err
	}
	plan := links.Decide(want, devices, l.cfg.Port)
	refused, err := l.carryOut(plan)
	l.conclude(want, plan, refused)
	if len(without(plan.Make, refused)) > 0 {
		l.cfg.Made()
	}
	if plan.More {
		l.Changed()
	}
	return err
}

// carryOut returns the errors of links, by identity, beside all errors. The filter comes
// before the first VXLAN link, and goes after the last.
func (l *Loop) carryOut(plan links.Plan) (map[multinet.LinkID]error, error) {
	refused, vxlans := map[multinet.LinkID]error{}, vxlansOf(plan)
	gone := l.delete(plan.Delete)
	failures := []error{gone}
	if plan.Guarded {
		err := (filter{Port: l.cfg.Port, Peers: plan.Senders}).guard(l.kernel.space)
		for _, link := range vxlans {
			refused[link.LinkID] = err
		}
		failures = append(failures, err)
	}
	l.make(plan.Make, refused)
	for _, c := range plan.Change {
		if err := l.kernel.change(c); err != nil {
			refused[c.LinkID] = err
		}
	}
	failures = append(failures, l.kernel.forward(without(vxlans, refused)))
	if !plan.Guarded && gone == nil {
		failures = append(failures, unguard(l.kernel.space))
	}
	return refused, errors.Join(failures...)
}

func (l *Loop) delete(all []links.Device) error {
	var failures []error
	for _, d := range all {
		if err := l.kernel.delete(d.Index); err != nil {
			failures = append(failures, err)
			continue
		}
		l.cfg.Log.Info("deleted a host link", "device", d.Names[0], "mark", d.Alias)
	}
	return errors.Join(failures...)
}

// make creates the links that are not refused, and adds failed links to refused. After the
// kernel has refused a type, make skips the other links of the type.
func (l *Loop) make(all []links.Link, refused map[multinet.LinkID]error) {
	unsupported := map[string]error{}
	for _, link := range all {
		err := cmp.Or(refused[link.LinkID], unsupported[link.Type])
		if err == nil {
			err = l.kernel.make(link)
		}
		if errors.Is(err, ifdriver.ErrUnsupported) {
			unsupported[link.Type] = err
		}
		if err != nil {
			refused[link.LinkID] = err
			continue
		}
		l.cfg.Log.Info("made a host link", "device", link.Name, "link", link.String())
	}
}

func vxlansOf(plan links.Plan) []links.Link {
	var all []links.Link
	for id, l := range plan.Links {
		if id.Type == multinet.VXLAN {
			all = append(all, l)
		}
	}
	return all
}

func without(all []links.Link, refused map[multinet.LinkID]error) []links.Link {
	var list []links.Link
	for _, l := range all {
		if refused[l.LinkID] == nil {
			list = append(list, l)
		}
	}
	return list
}

// conclude keeps the result of a pass, and reports its failures if they are new.
func (l *Loop) conclude(want links.State, plan links.Plan, refused map[multinet.LinkID]error) {
	failures := append(plan.Failures[:len(plan.Failures):len(plan.Failures)], refusals(want, refused)...)
	l.mu.Lock()
	moved := !l.reported || !slices.EqualFunc(l.plan.Addresses, plan.Addresses, multinet.DeviceAddrs.Equal)
	report := !l.reported || !slices.Equal(l.failures, failures)
	l.last, l.plan = want, plan
	l.failures, l.reported = failures, true
	l.mu.Unlock()
	if moved {
		l.cfg.Reporter.LinksAddressed(plan.Addresses)
	}
	if report {
		l.cfg.Reporter.LinksFailed(failures)
	}
}

// refusals describes the errors of links. A kernel without links of a type is one failure.
func refusals(want links.State, refused map[multinet.LinkID]error) []multinet.LinkFailure {
	var all []multinet.LinkFailure
	lacking := map[string]bool{}
	for _, w := range want.Wanted {
		err := refused[w.LinkID]
		switch {
		case err == nil:
		case !errors.Is(err, ifdriver.ErrUnsupported):
			all = append(all, multinet.LinkFailure{LinkID: w.LinkID, Reason: v1alpha1.LinkRefusedReason, Message: err.Error()})
		case !lacking[w.Type]:
			lacking[w.Type] = true
			all = append(
				all,
				multinet.LinkFailure{
					LinkID:  multinet.LinkID{Type: w.Type},
					Reason:  v1alpha1.KernelUnsupportedReason,
					Message: err.Error(),
				},
			)
		}
	}
	return all
}

// Name returns the name of the link that a record's interface is derived from, and makes the
// link if it is not there. The error names cause and remedy. Before the API has been read,
// it finds the links that are there.
func (l *Loop) Name(_ context.Context, rec journal.Record) (string, error) {
	id, ok := links.Of(rec)
	if !ok {
		return "", fmt.Errorf("interface %s is on no host link", rec.IfName)
	}
	if name, err := l.result(id); err == nil && l.kernel.isLink(name, id) {
		return name, nil
	}
	passed := l.Pass()
	if errors.Is(passed, errUnread) {
		return l.kernel.standing(id)
	}
	name, err := l.result(id)
	if err != nil {
		return "", errors.Join(err, passed)
	}
	return name, nil
}

// result returns what the last pass made of a link.
func (l *Loop) result(id multinet.LinkID) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, failure := range l.failures {
		if failure.Concerns(id) {
			return "", fmt.Errorf("%s: %s", id, failure.Message)
		}
	}
	link, ok := l.plan.Links[id]
	if !ok {
		return "", fmt.Errorf("%s: neither a HostLink object nor an attachment demands it", id)
	}
	return link.Name, nil
}

// Addresses returns the node's own addresses at devices of its VXLANs, as the last pass found
// them. Addresses of the Node object are left out.
func (l *Loop) Addresses() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []netip.Addr
	for _, at := range l.plan.Addresses {
		all = append(all, at.Addrs...)
	}
	return all
}

// Failures returns the failures of the last pass.
func (l *Loop) Failures() []multinet.LinkFailure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures
}

// Concerned reports whether a change of the device of that index and name may concern a
// link: it is one, or the parent of one.
func (l *Loop) Concerned(index int, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.last.Wanted {
		link, possible := l.plan.Links[w.LinkID]
		if w.Device == name || possible && (link.Name == name || link.Parent == index) {
			return true
		}
	}
	return false
}

// Changed requests a pass, because somebody has changed the node's devices. It does not
// block.
func (l *Loop) Changed() { l.changed.Send() }

// Uninstall removes all links and the filter from the network namespace of the calling
// thread.
func Uninstall() error {
	k, err := Open()
	if err != nil {
		return err
	}
	defer k.Close()
	devices, err := k.devices(false)
	if err != nil {
		return err
	}
	failures := []error{unguard(k.space)}
	for _, d := range devices {
		if _, ours := links.Marked(d.Alias); ours {
			failures = append(failures, k.delete(d.Index))
		}
	}
	return errors.Join(failures...)
}
