// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alioth-net/alioth/api/annotations"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// Establish makes the attachments of a pod, or leaves nothing. The first one of the
// result is the requested one. A repeated request for intact attachments has the same
// result.
func (m *Manager) Establish(ctx context.Context, r Request) ([]Attached, error) {
	unlock, err := m.lock(ctx, r.ContainerID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	list, err := m.known(ctx, r)
	if err == nil && list == nil {
		list, err = m.create(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", r.Pod, err)
	}
	for _, one := range list {
		m.logOf(one.Record).Info("pod attached")
		for _, notice := range one.Link.Notices {
			if m.cfg.Observer != nil {
				m.cfg.Observer.Refused(r.Pod, notice.Reason, notice.Message)
			}
		}
	}
	if m.cfg.Observer != nil {
		m.cfg.Observer.Attached(list[0].Pod)
	}
	return list, nil
}

// known returns the attachments that were made before, nil without any. It removes the
// remains of attachments that are not intact.
func (m *Manager) known(ctx context.Context, r Request) ([]Attached, error) {
	records := m.ofRequest(r.Key)
	if len(records) == 0 {
		return nil, m.refuseSecondRequest(r.Key)
	}
	for _, rec := range records {
		if err := refuseSecondNamespace(rec, r); err != nil {
			return nil, err
		}
	}
	if records[0].AskedFor(r.Pod) && records[0].NetnsPath == r.NetnsPath {
		list, err := m.allIntact(ctx, records)
		if err == nil {
			return list, m.programAll(ctx, records)
		}
		m.logOf(records[0]).Warn("attachment is not intact; replacing it", "error", err)
	}
	if err := m.removeAll(ctx, records); err != nil {
		return nil, fmt.Errorf("remove remains of an earlier attempt: %w", err)
	}
	return nil, nil
}

// refuseSecondRequest refuses to attach a container once more by another name: the first
// request has all of the pod's interfaces, and the second would have their addresses.
func (m *Manager) refuseSecondRequest(key journal.Key) error {
	for _, rec := range m.cfg.Journal.OfContainer(key.ContainerID) {
		if rec.Phase == journal.PhaseDone {
			return fmt.Errorf(
				"%w: %s is attached. For an interface %s name the network in the annotation %s of a NetworkAttachmentDefinition, without a configuration of type alioth",
				ErrAttached,
				rec.RequestKey(),
				key.IfName,
				annotations.NetworkKey,
			)
		}
	}
	return nil
}

// refuseSecondNamespace prevents a request from moving an attachment whose network namespace is
// alive. A container has one network namespace, so the runtime uses one ID for two containers. A
// namespace that has ended does not prevent the move.
func refuseSecondNamespace(rec journal.Record, r Request) error {
	if rec.Phase != journal.PhaseDone || rec.NetnsPath == r.NetnsPath {
		return nil
	}
	first, err := netns.Identify(rec.NetnsPath)
	if err != nil || first.Cookie != rec.Device.NetnsCookie {
		return nil //nolint:nilerr // a missing namespace, or a different one, is no obstacle
	}
	return fmt.Errorf(
		"%w: %s is in %s; remove it before it is asked for in %s",
		ErrNamespaceAlive,
		rec.Key,
		rec.NetnsPath,
		r.NetnsPath,
	)
}

func (m *Manager) allIntact(ctx context.Context, records []journal.Record) ([]Attached, error) {
	list := make([]Attached, len(records))
	for i, rec := range records {
		link, err := m.intact(ctx, rec)
		if err != nil {
			return nil, err
		}
		list[i] = Attached{rec, link}
	}
	return list, nil
}

// create waits for a decision and carries it out.
func (m *Manager) create(ctx context.Context, r Request) ([]Attached, error) {
	decisions, err := m.await(ctx, r.Pod)
	if err == nil {
		decisions, err = m.withDevices(ctx, r.Pod, decisions)
	}
	if err != nil {
		return nil, err
	}
	defer m.cfg.Metrics.since(phaseTotal, time.Now())
	records, err := m.begin(r, decisions)
	if err == nil {
		// If the pod began to end before its records were written, its addresses may
		// have been released and assigned to another pod.
		err = m.cfg.Decisions.Confirm(records)
	}
	var list []Attached
	if err == nil {
		list, err = m.establish(ctx, records, decisions)
	}
	if err != nil {
		return nil, m.rollback(ctx, records, err)
	}
	return list, nil
}

func (m *Manager) await(ctx context.Context, pod journal.Pod) ([]Decision, error) {
	defer m.cfg.Metrics.since(phaseWait, time.Now())
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Wait)
	defer cancel()
	decisions, err := m.cfg.Decisions.Await(ctx, pod)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &NotReady{Reason: fmt.Sprintf("no decision about this pod within %s", m.cfg.Wait)}
	}
	return decisions, err
}

// begin writes the records of the attachments, or none.
func (m *Manager) begin(r Request, decisions []Decision) ([]journal.Record, error) {
	wanted := make([]journal.Record, 0, len(decisions))
	for _, d := range decisions {
		driver, err := m.cfg.Drivers.Of(d.Kind)
		if err == nil {
			err = checkCaller(r, driver)
		}
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, recordOf(r, d, driver))
	}
	records, err := m.cfg.Journal.BeginAll(wanted)
	if errors.Is(err, journal.ErrDeviceHeld) {
		err = &NotReady{Reason: err.Error()}
	}
	return records, err
}

// checkCaller refuses a request of another CNI plugin for interfaces of Alioth, and the
// other way round.
func checkCaller(r Request, driver ifdriver.Driver) error {
	switch external := driver.Capabilities().External; {
	case external && !r.External:
		return fmt.Errorf(
			"%w: the operator gives pods on this node addresses for the node IPAM API; remove Alioth from the node's CNI configurations, or the label %s from the node",
			ErrCaller,
			multitenancyv1alpha1.NodeLabel,
		)
	case !external && r.External:
		return fmt.Errorf(
			"%w: Alioth's own plugin makes them, because the pod requests networks of Alioth, or because its node did not have the label %s when the pod was bound",
			ErrCaller,
			multitenancyv1alpha1.NodeLabel,
		)
	}
	return nil
}

// rollback undoes the finished steps of a request. If that fails, the records stay, and
// Remove or Reconcile tries again.
func (m *Manager) rollback(ctx context.Context, records []journal.Record, cause error) error {
	undo := m.removeAll(ctx, records)
	if undo == nil {
		return cause
	}
	text := fmt.Sprintf(" (and undoing it failed, a DEL will try again: %v)", undo)
	if notReady, ok := errors.AsType[*NotReady](cause); ok {
		return &NotReady{Reason: notReady.Reason + text}
	}
	return fmt.Errorf("%w%s", cause, text)
}

// establish takes records from intended to done and programmed, with one deadline, one phase
// after the other. A phase with a failure is the last one.
func (m *Manager) establish(ctx context.Context, records []journal.Record, decisions []Decision) ([]Attached, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.EstablishWait)
	defer cancel()
	list, made := make([]Attached, len(records)), make([]ifdriver.Made, len(records))
	for _, p := range phasesOf(decisions) {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, &NotReady{
				Reason: fmt.Sprintf(
					"attaching %s: the other interfaces of the pod took all of %s",
					records[p.indexes[0]].IfName,
					m.cfg.EstablishWait,
				),
			}
		}
		complete := func(ctx context.Context, i int) (err error) {
			list[i], err = m.complete(ctx, records[i], made[i].Link)
			return err
		}
		err := p.run(ctx, func(ctx context.Context, i int) (err error) {
			if made[i], err = m.attach(ctx, records[i], decisions[i].Delegate); err != nil || p.whole {
				return err
			}
			return complete(ctx, i)
		})
		if err == nil && p.whole {
			err = m.finish(ctx, records[p.indexes[0]].Kind, made)
		}
		if err == nil && p.whole {
			err = p.run(ctx, complete)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// finish completes the interfaces of a phase in the order of the pod's list.
func (m *Manager) finish(ctx context.Context, kind ifdriver.Kind, made []ifdriver.Made) error {
	driver, err := m.cfg.Drivers.Of(kind)
	if err != nil {
		return err
	}
	finisher, ok := driver.(ifdriver.Finisher)
	if !ok {
		return nil
	}
	var list []*ifdriver.Made
	for i := range made {
		if made[i].IfName != "" {
			list = append(list, &made[i])
		}
	}
	return finisher.Finish(ctx, list)
}

// atOnce calls f for every index below n in parallel, for the first in the caller's
// goroutine: most requests have one attachment.
func atOnce(n int, f func(int)) {
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { f(i) })
	}
	if n > 0 {
		f(0)
	}
	wg.Wait()
}

// attach makes the interface of a record.
func (m *Manager) attach(
	ctx context.Context,
	rec journal.Record,
	delegate *ifdriver.Delegate,
) (made ifdriver.Made, err error) {
	driver, err := m.cfg.Drivers.Of(rec.Kind)
	if err != nil {
		return made, err
	}
	start := time.Now()
	if made.Spec, err = m.spec(ctx, rec); err != nil {
		return made, err
	}
	made.Delegate = withArgs(delegate, rec)
	made.Link, err = driver.Attach(ctx, made.Spec)
	m.cfg.Metrics.attached(rec.Kind, start, err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ifdriver.ErrNotYet) {
		return made, &NotReady{Reason: "attaching the pod: " + err.Error()}
	}
	if err == nil {
		m.cfg.Metrics.since(phaseAttach, start)
	}
	return made, err
}

// complete writes down that an interface exists, and programs it.
func (m *Manager) complete(ctx context.Context, rec journal.Record, link ifdriver.Link) (Attached, error) {
	rec, err := m.cfg.Journal.Complete(rec.Key, device(link))
	if err != nil {
		return Attached{}, err
	}
	return Attached{rec, link}, m.program(ctx, rec)
}

func (m *Manager) programAll(ctx context.Context, records []journal.Record) error {
	errs := make([]error, len(records))
	atOnce(len(records), func(i int) { errs[i] = m.program(ctx, records[i]) })
	return errors.Join(errs...)
}

// program makes the datapath carry the packets of an attachment, or serve its sockets. It
// does nothing for another CNI plugin.
func (m *Manager) program(ctx context.Context, rec journal.Record) error {
	can := m.capabilities(rec.Kind)
	if can.External {
		return nil
	}
	defer m.cfg.Metrics.since(phaseProgram, time.Now())
	ctx, cancel := context.WithTimeout(ctx, m.cfg.EstablishWait)
	defer cancel()
	program := m.cfg.Datapath.ProgramSockets
	if can.Datapath() {
		program = m.cfg.Datapath.Program
	}
	err := program(ctx, rec)
	var notReady *NotReady
	if err == nil || errors.As(err, &notReady) {
		return err
	}
	return &NotReady{Reason: "programming the datapath: " + err.Error()}
}

// recordOf returns the record of a new attachment. A further attachment of a request has
// the name of the requested one, so that both are removed together.
func recordOf(r Request, d Decision, driver ifdriver.Driver) journal.Record {
	rec := journal.Record{
		Identity: journal.Identity{
			Key:        r.Key,
			ClientID:   r.ClientID,
			Pod:        r.Pod,
			CNINetwork: r.Network,
			NetnsPath:  r.NetnsPath,
			Attachment: d.Attachment,
		},
		Binding: d.Binding, Interface: d.Interface,
		Probed: d.Probed, ProbeTimeout: d.ProbeTimeout, HostPorts: d.HostPorts,
	}
	if rec.IfName = cmp.Or(d.IfName, r.IfName); rec.IfName != r.IfName {
		rec.Request = r.IfName
	}
	if d.PodUID != "" && d.PodUID != r.Pod.UID {
		rec.Pod.UID, rec.RuntimeUID = d.PodUID, r.Pod.UID
	}
	rec.HostIfName = driver.HostName(rec.ContainerID, rec.IfName)
	return rec
}

// spec returns the input of a record's driver. An interface on a VLAN or VXLAN is derived from
// the node's link for it, whose name is the node's own.
func (m *Manager) spec(ctx context.Context, rec journal.Record) (ifdriver.Spec, error) {
	spec := specOf(rec)
	if number, _ := rec.ParentLink(); number == 0 {
		return spec, nil
	}
	if m.cfg.Links == nil {
		return spec, fmt.Errorf(
			"interface %s: this node makes no links for VLAN %d or VXLAN %d on %s",
			rec.IfName,
			rec.VLAN,
			rec.VXLAN,
			rec.Parent,
		)
	}
	name, err := m.cfg.Links.Name(ctx, rec)
	if err != nil {
		return spec, fmt.Errorf("interface %s: %w", rec.IfName, err)
	}
	spec.Parent, spec.OnLink = name, true
	return spec, nil
}

func specOf(rec journal.Record) ifdriver.Spec {
	return ifdriver.Spec{
		ContainerID: rec.ContainerID, IfName: rec.IfName, Request: rec.Request, PodUID: rec.Pod.UID, Network: rec.CNINetwork,
		Description: rec.Pod.String(), NetnsPath: rec.NetnsPath,
		Addrs: rec.Addrs, Gateways: rec.Gateways, MAC: rec.MAC[:], AltName: rec.AltName, PCI: rec.PCI, Config: rec.Config,
	}
}

// withArgs adds to the configuration of CNI plugins the arguments that identify the pod
// (CNI conventions, section "CNI_ARGS").
func withArgs(delegate *ifdriver.Delegate, rec journal.Record) *ifdriver.Delegate {
	if delegate == nil {
		return nil
	}
	own := *delegate
	own.Args = append([][2]string{
		{"IgnoreUnknown", "true"},
		{"K8S_POD_NAMESPACE", rec.Pod.Namespace},
		{"K8S_POD_NAME", rec.Pod.Name},
		{"K8S_POD_INFRA_CONTAINER_ID", rec.ContainerID},
		{"K8S_POD_UID", rec.Pod.UID},
	}, delegate.Args...)
	return &own
}

func device(link ifdriver.Link) journal.Device {
	made := journal.Device{HostIfindex: link.HostIfindex, NetnsInode: link.NetnsInode, NetnsCookie: link.NetnsCookie}
	copy(made.MAC[:], link.MAC)
	return made
}
