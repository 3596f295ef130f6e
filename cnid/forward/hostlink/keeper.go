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
	"github.com/alioth-net/alioth/cnid/interfaces/attach"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// DefaultPort is the UDP port of VXLAN links. IANA has assigned it to nobody, and it is
// outside of the usual ranges of NodePorts and of source ports. On many nodes other VXLAN
// devices use the ports 4789 and 8472, and VXLAN-GPE uses 4790.
const DefaultPort = 14789

// Config configures a Keeper. All fields except Devices are required.
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

// Keeper keeps the links of a node.
type Keeper struct {
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

// New returns a Keeper of the links of a kernel.
func New(kernel *Kernel, cfg Config) *Keeper { return &Keeper{cfg: cfg, kernel: kernel} }

// Run keeps the links until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	if !k.cfg.Synced.Wait(ctx) {
		return
	}
	for ctx.Err() == nil {
		changed := k.changed.Next()
		if err := k.Pass(); err != nil {
			k.cfg.Log.Warn("can't keep all host links; trying again", "error", err)
		}
		k.wait(ctx, changed)
	}
}

// wait returns when there is a reason for a pass, or after the interval.
func (k *Keeper) wait(ctx context.Context, changed <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Every)
	defer cancel()
	woken := false
	// An error means that it is time for a pass, or to end.
	_ = k.cfg.Store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		select {
		case <-changed:
			woken = true
		default:
		}
		ws.Add(changed)
		return woken || !k.demanded(tx).Equal(k.lastState())
	})
}

func (k *Keeper) demanded(tx store.ReadTx) links.State {
	s := links.StateOf(tx, k.cfg.Node, k.cfg.Journal.Records())
	s.Listed = k.cfg.Devices
	if k.cfg.Trusted {
		s.Direct = nil
	}
	return s
}

func (k *Keeper) lastState() links.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// errUnread reports that the API has not been read yet.
var errUnread = errors.New("the daemon has not read the API yet, and makes the links of the node afterwards")

// Pass compares the node with what it has to have, and changes the difference. An error of
// one link does not keep the others from their changes. Before the API has been read, the
// nodes and links of the cluster are unknown, and Pass is an errUnread.
func (k *Keeper) Pass() error {
	k.passing.Lock()
	defer k.passing.Unlock()
	if !k.cfg.Synced.IsOpen() {
		return errUnread
	}
	var want links.State
	k.cfg.Store.View(func(tx store.ReadTx) { want = k.demanded(tx) })
	devices, err := k.kernel.devices(len(want.Wanted) > 0)
	if err != nil {
		return err
	}
	plan := links.Decide(want, devices, k.cfg.Port)
	refused, err := k.carryOut(plan)
	k.conclude(want, plan, refused)
	if len(without(plan.Make, refused)) > 0 {
		k.cfg.Made()
	}
	if plan.More {
		k.Changed()
	}
	return err
}

// carryOut returns the errors of links, by identity, beside all errors. The filter comes
// before the first VXLAN link, and goes after the last.
func (k *Keeper) carryOut(plan links.Plan) (map[multinet.LinkID]error, error) {
	refused, vxlans := map[multinet.LinkID]error{}, vxlansOf(plan)
	gone := k.delete(plan.Delete)
	failures := []error{gone}
	if plan.Guarded {
		err := (filter{Port: k.cfg.Port, Peers: plan.Senders}).guard(k.kernel.space)
		for _, l := range vxlans {
			refused[l.LinkID] = err
		}
		failures = append(failures, err)
	}
	k.make(plan.Make, refused)
	for _, c := range plan.Change {
		if err := k.kernel.change(c); err != nil {
			refused[c.LinkID] = err
		}
	}
	failures = append(failures, k.kernel.forward(without(vxlans, refused)))
	if !plan.Guarded && gone == nil {
		failures = append(failures, unguard(k.kernel.space))
	}
	return refused, errors.Join(failures...)
}

func (k *Keeper) delete(all []links.Device) error {
	var failures []error
	for _, d := range all {
		if err := k.kernel.delete(d.Index); err != nil {
			failures = append(failures, err)
			continue
		}
		k.cfg.Log.Info("deleted a host link", "device", d.Names[0], "mark", d.Alias)
	}
	return errors.Join(failures...)
}

// make creates the links that are not refused, and adds failed links to refused. After the
// kernel has refused a type, make skips the other links of the type.
func (k *Keeper) make(all []links.Link, refused map[multinet.LinkID]error) {
	unsupported := map[string]error{}
	for _, l := range all {
		err := cmp.Or(refused[l.LinkID], unsupported[l.Type])
		if err == nil {
			err = k.kernel.make(l)
		}
		if errors.Is(err, attach.ErrUnsupported) {
			unsupported[l.Type] = err
		}
		if err != nil {
			refused[l.LinkID] = err
			continue
		}
		k.cfg.Log.Info("made a host link", "device", l.Name, "link", l.String())
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
func (k *Keeper) conclude(want links.State, plan links.Plan, refused map[multinet.LinkID]error) {
	failures := append(plan.Failures[:len(plan.Failures):len(plan.Failures)], refusals(want, refused)...)
	k.mu.Lock()
	moved := !k.reported || !slices.EqualFunc(k.plan.Addresses, plan.Addresses, multinet.DeviceAddrs.Equal)
	report := !k.reported || !slices.Equal(k.failures, failures)
	k.last, k.plan = want, plan
	k.failures, k.reported = failures, true
	k.mu.Unlock()
	if moved {
		k.cfg.Reporter.LinksAddressed(plan.Addresses)
	}
	if report {
		k.cfg.Reporter.LinksFailed(failures)
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
		case !errors.Is(err, attach.ErrUnsupported):
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
func (k *Keeper) Name(_ context.Context, rec journal.Record) (string, error) {
	id, ok := links.Of(rec)
	if !ok {
		return "", fmt.Errorf("interface %s is on no host link", rec.IfName)
	}
	if name, err := k.result(id); err == nil && k.kernel.isLink(name, id) {
		return name, nil
	}
	passed := k.Pass()
	if errors.Is(passed, errUnread) {
		return k.kernel.standing(id)
	}
	name, err := k.result(id)
	if err != nil {
		return "", errors.Join(err, passed)
	}
	return name, nil
}

// result returns what the last pass made of a link.
func (k *Keeper) result(id multinet.LinkID) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, failure := range k.failures {
		if failure.Concerns(id) {
			return "", fmt.Errorf("%s: %s", id, failure.Message)
		}
	}
	link, ok := k.plan.Links[id]
	if !ok {
		return "", fmt.Errorf("%s: neither a HostLink object nor an attachment demands it", id)
	}
	return link.Name, nil
}

// Addresses returns the node's own addresses at devices of its VXLANs, as the last pass found
// them. Addresses of the Node object are left out.
func (k *Keeper) Addresses() []netip.Addr {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []netip.Addr
	for _, at := range k.plan.Addresses {
		all = append(all, at.Addrs...)
	}
	return all
}

// Failures returns the failures of the last pass.
func (k *Keeper) Failures() []multinet.LinkFailure {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failures
}

// Concerned reports whether a change of the device of that index and name may concern a
// link: it is one, or the parent of one.
func (k *Keeper) Concerned(index int, name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.last.Wanted {
		link, possible := k.plan.Links[w.LinkID]
		if w.Device == name || possible && (link.Name == name || link.Parent == index) {
			return true
		}
	}
	return false
}

// Changed requests a pass, because somebody has changed the node's devices. It does not
// block.
func (k *Keeper) Changed() { k.changed.Send() }

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
