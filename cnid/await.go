// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
)

// decisions implements attachment.Decisions on the store.
type decisions struct {
	cfg plan.Config
	// reserved are addresses of API servers, beside those that cfg knows.
	reserved func() []netip.Addr
	store    *store.Store
	// kind of new attachments.
	kind attach.Kind
	// vpcSynced reports whether everything of a VPC has been read; the channel is
	// closed when that may have changed.
	vpcSynced func(vpc string) (bool, <-chan struct{})
	// mtu for pods, likewise; problem is what keeps the node from being programmed.
	mtu     func() (int, <-chan struct{})
	problem func() string
	// probed are the records of all that the kubelet may probe; the channel is
	// closed when they may have become fewer.
	probed func() ([]journal.Record, <-chan struct{})
	// attached are the records of all that is attached here, and listens knows
	// the ports of the node's own programs.
	attached func() []journal.Record
	listens  plan.Listens
	// warn tells people about a pod that is refused, or not probed.
	warn func(pod journal.Pod, reason, message string)
	log  *slog.Logger
}

// Await implements attachment.Decisions.
func (d *decisions) Await(ctx context.Context, pod journal.Pod) ([]attachment.Decision, error) {
	var last answer
	var seen, warned bool
	err := d.store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		mtu, changed := d.mtu()
		if mtu == 0 {
			ws.Add(changed)
		}
		records, fewer := d.probed()
		ws.Add(fewer)
		cfg := d.cfg
		cfg.Reserved = slices.Concat(cfg.Reserved, d.reserved())
		last = decide(tx, question{
			cfg: cfg, records: records, pod: pod, kind: d.kind, mtu: mtu, problem: d.problem(), attached: d.attached(), listens: d.listens,
			synced: func(vpc string) bool {
				synced, changed := d.vpcSynced(vpc)
				ws.Add(changed)
				return synced
			},
		})
		last.gone = last.gone || seen && !last.seen
		seen = seen || last.seen
		if last.warning != "" && !warned {
			warned = true
			d.warn(pod, last.reason, last.warning)
		}
		return last.gone || last.elsewhere || last.missing == ""
	})
	switch {
	case last.gone:
		return nil, attachment.ErrPodGone
	case err != nil || last.elsewhere:
		d.log.Debug("gave up waiting for a pod's network", "pod", pod.String(), "podUID", pod.UID, "reason", last.missing)
		return nil, &attachment.NotReady{Reason: last.missing}
	}
	return last.decisions, nil
}

// Confirm implements attachment.Decisions. What decide waits for may have come about
// since by a request at the same time: of two, the later is refused.
func (d *decisions) Confirm(records []journal.Record) (err error) {
	d.store.View(func(tx store.ReadTx) {
		for _, rec := range records {
			err = cmp.Or(err, d.confirm(tx, rec))
		}
	})
	return err
}

func (d *decisions) confirm(tx store.ReadTx, rec journal.Record) error {
	pod := findPod(tx, rec.Pod)
	if pod == nil || pod.Deleting || pod.Terminal {
		return attachment.ErrPodGone
	}
	probed, _ := d.probed()
	conflict := cmp.Or(plan.ProbeConflict(tx, probed, pod, ipsOf(rec.Addrs), rec.Seq), plan.HostPortRace(tx, d.cfg, d.attached(), rec))
	if conflict != "" {
		return &attachment.NotReady{Reason: conflict}
	}
	return nil
}

func ipsOf(prefixes []netip.Prefix) []netip.Addr {
	var ips []netip.Addr
	for _, prefix := range prefixes {
		ips = append(ips, prefix.Addr())
	}
	return ips
}

// Check implements attachment.Decisions.
func (d *decisions) Check(rec journal.Record) error {
	if synced, _ := d.vpcSynced(rec.VPC); !rec.InVPC() || !synced {
		return nil
	}
	var difference error
	d.store.View(func(tx store.ReadTx) { difference = compareAddresses(tx, rec) })
	return difference
}

// compareAddresses compares a record with the Address objects of its IPs.
func compareAddresses(tx store.ReadTx, rec journal.Record) error {
	if reason := plan.WhyLost(tx, rec); reason != "" {
		return fmt.Errorf("%w: %s", errLost, reason)
	}
	for _, prefix := range rec.Addrs {
		row := store.AddressByIP(tx, rec.VPC, prefix.Addr())
		if row == nil {
			return fmt.Errorf("the Address object of %s in VPC %s is missing; the operator creates it anew", prefix.Addr(), rec.VPC)
		}
		if row.MAC != rec.MAC.String() {
			return fmt.Errorf("the Address object %s has MAC %s, and the pod was attached with %s", row.Name, row.MAC, rec.MAC)
		}
	}
	return nil
}
