// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decision decides what a pod's attachments are: from the Address objects of the pod's
// UID, the objects that they refer to, and the other attachments on the node. It reads store and
// journal and changes nothing.
package decision

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// unmarked is the reason of a decision that waits for Config.NodeMarked.
const unmarked = "the Node object does not have the conditions of its daemon yet; if this lasts, the log of the daemon has the error of the API server"

// Config has the inputs of decisions. All fields but Sharing are required.
type Config struct {
	Plan plan.Config
	// Sources read the objects, Progress has what passes have reached.
	Sources  Sources
	Progress Progress
	// NodeMarked reports whether the API knows of this daemon. The operator would release the
	// addresses of a pod that ends before that, as on a node without a daemon (docs/design/159).
	NodeMarked broadcast.Gate
	// Held has all that the kubelet may probe, Journal all that is attached here.
	Held    Held
	Journal journal.Reader
	// APIServers has addresses of API servers, beside those in Plan.
	APIServers APIServers
	Store      *store.Store
	// Pair is the kind of new pairs of devices on the node.
	Pair ifdriver.Kind
	// Sharing is whose definitions pods of other namespaces may select.
	Sharing multinet.Sharing
	// Listens reports the ports of the node's own programs.
	Listens plan.Listens
	Events  Events
	Log     *slog.Logger
}

// Sources report which objects have been read of the API.
type Sources interface {
	// DomainSynced reports whether everything of a VPC has been read, by its name, or of
	// a network outside of every VPC, by its domain.
	DomainSynced(domain string) broadcast.Gate
	// NamespaceSynced reports whether the namespace of a pod that asks for ports of the node
	// has been read.
	NamespaceSynced(name string) broadcast.Gate
}

// Progress has what the passes of the node have reached.
type Progress interface {
	// PodMTU is the MTU for pods in bytes, 0 before the node has been programmed; the
	// channel is closed when it may have changed.
	PodMTU() (int, <-chan struct{})
	// Problem is the error that prevents programming the node, or "".
	Problem() string
}

// APIServers has the addresses of API servers.
type APIServers interface{ Addresses() []netip.Addr }

// Events writes events for pods.
type Events interface {
	// Refused is called for a pod that is refused something, or is not probed.
	Refused(pod journal.Pod, reason, message string)
}

// Held has the records of all that the kubelet may probe.
type Held interface {
	// Probed returns them; the channel is closed when they may have become fewer.
	Probed() ([]journal.Record, <-chan struct{})
}

// Decisions implements attachment.Decisions on the store.
type Decisions struct{ cfg Config }

// New returns the decisions of a node.
func New(cfg Config) *Decisions { return &Decisions{cfg: cfg} }

// Await implements attachment.Decisions.
func (d *Decisions) Await(ctx context.Context, pod journal.Pod) ([]attachment.Decision, error) {
	var last answer
	var seen, warned bool
	err := d.cfg.Store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		mtu, changed := d.cfg.Progress.PodMTU()
		if mtu == 0 {
			ws.Add(changed)
		}
		cfg := d.cfg.Plan
		cfg.Reserved = slices.Concat(cfg.Reserved, d.cfg.APIServers.Addresses())
		last = decide(tx, question{
			cfg: cfg, node: watched{d.cfg, cfg, ws}, sharing: d.cfg.Sharing,
			pod: pod, kinds: named(d.cfg.Plan.Kinds, d.cfg.Pair), mtu: mtu, problem: d.cfg.Progress.Problem(),
		})
		marked, markChanged := d.cfg.NodeMarked()
		ws.Add(markChanged)
		if last.missing == "" && !marked {
			last.missing = unmarked
		}
		last.gone = last.gone || seen && !last.seen
		seen = seen || last.seen
		if last.warning != "" && !warned {
			warned = true
			d.cfg.Events.Refused(pod, last.reason, last.warning)
		}
		return last.gone || last.elsewhere || last.missing == ""
	})
	switch {
	case last.gone:
		return nil, attachment.ErrPodGone
	case err != nil || last.elsewhere:
		d.cfg.Log.Debug("gave up waiting for a pod's network", "pod", pod.String(), "podUID", pod.UID, "reason", last.missing)
		return nil, &attachment.NotReady{Reason: last.missing}
	}
	return last.decisions, nil
}

// watched implements node for a call of Store.Wait, which looks again when an answer changes.
type watched struct {
	Config
	plan plan.Config
	ws   *store.WatchSet
}

// parties implements node.
func (w watched) parties() parties {
	records, fewer := w.Held.Probed()
	w.ws.Add(fewer)
	return parties{cfg: w.plan, probed: records, attached: w.Journal.Records(), listens: w.Listens}
}

// synced implements node.
func (w watched) synced(domain string) bool { return w.opened(w.Sources.DomainSynced(domain)) }

// namespaceSynced implements node.
func (w watched) namespaceSynced(name string) bool {
	return w.opened(w.Sources.NamespaceSynced(name))
}

// opened reports whether a gate is open.
func (w watched) opened(gate broadcast.Gate) bool {
	open, changed := gate()
	w.ws.Add(changed)
	return open
}

// Confirm implements attachment.Decisions. A request at the same time may have created a conflict
// since the decision: of two requests, the later one is refused.
func (d *Decisions) Confirm(records []journal.Record) (err error) {
	d.cfg.Store.View(func(tx store.ReadTx) {
		for _, rec := range records {
			err = cmp.Or(err, d.confirm(tx, rec))
		}
	})
	return err
}

func (d *Decisions) confirm(tx store.ReadTx, rec journal.Record) error {
	pod := findPod(tx, rec.Pod)
	if pod == nil || pod.Deleting || pod.Terminal {
		return attachment.ErrPodGone
	}
	if rec.External {
		return nil
	}
	if rec.Outside != "" {
		if _, missing := allocation.Claimed(tx, pod, rec.Attachment); missing != "" {
			return &attachment.NotReady{Reason: missing}
		}
	}
	// Now that the record exists, the VPC stays followed.
	if rec.InVPC() {
		if !d.cfg.Sources.DomainSynced(rec.VPC).IsOpen() {
			return &attachment.NotReady{Reason: unread(rec.VPC)}
		}
	}
	probed, _ := d.cfg.Held.Probed()
	with := parties{cfg: d.cfg.Plan, probed: probed, attached: d.cfg.Journal.Records(), listens: d.cfg.Listens}
	if no := conflict(tx, with, pod, rec); no != nil {
		return &attachment.NotReady{Reason: no.Message}
	}
	return nil
}

// Check implements attachment.Decisions.
func (d *Decisions) Check(rec journal.Record) error {
	if !rec.InVPC() {
		return nil // no Address objects stand for it
	}
	if !d.cfg.Sources.DomainSynced(rec.VPC).IsOpen() {
		return nil
	}
	var difference error
	d.cfg.Store.View(func(tx store.ReadTx) { difference = compareAddresses(tx, rec) })
	return difference
}

// compareAddresses compares a record with the Address objects of its IPs.
func compareAddresses(tx store.ReadTx, rec journal.Record) error {
	if reason := plan.WhyLost(tx, rec); reason != "" {
		return fmt.Errorf("%w: %s", plan.ErrLost, reason)
	}
	for _, prefix := range rec.Addrs {
		row := store.AddressByIP(tx, rec.VPC, prefix.Addr())
		if row == nil {
			return fmt.Errorf(
				"the Address object of %s in VPC %s is missing; the operator creates it anew",
				prefix.Addr(),
				rec.VPC,
			)
		}
		if row.MAC != rec.MAC.String() {
			return fmt.Errorf("the Address object %s has MAC %s, and the pod was attached with %s", row.Name, row.MAC, rec.MAC)
		}
	}
	return nil
}
