// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeipam attaches pods for other CNI plugins, which ask over the node IPAM API
// (docs/design/130). It is a second caller of the manager of attachments, beside Alioth's
// own CNI plugin: the manager has the decisions, the journal and the order of requests.
package nodeipam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/store"
)

// Manager has the attachments of the node.
type Manager interface {
	Establish(ctx context.Context, r attachment.Request) ([]attachment.Attached, error)
	RemoveExternal(ctx context.Context, key journal.Key) error
	GC(ctx context.Context, network string, valid map[journal.Key]bool) error
	Ready() error
}

// Config has the settings and functions of a Service. All fields are required.
type Config struct {
	Manager Manager
	Store   *store.Store
	Journal Journal
	Log     *slog.Logger
}

// Journal has the records of the node.
type Journal interface {
	journal.Reader
	// OfContainer returns the records of a container.
	OfContainer(containerID string) []journal.Record
	// Releases returns the queue of releases.
	Releases() []journal.Record
}

// Service implements rest.Service.
type Service struct {
	cfg     Config
	running running
}

// New returns a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg, running: newRunning()} }

// Request implements rest.Service.
func (s *Service) Request(ctx context.Context, r rest.Request) ([]answer.Interface, error) {
	ctx, done := s.running.begin(ctx, r.Key)
	defer done()
	pod, err := s.find(r.Pod)
	if err != nil {
		return nil, err
	}
	wanted := attachment.Request{
		Key:      journal.Key{ContainerID: r.ContainerID, IfName: r.IfName},
		ClientID: r.PodInterfaceID, Pod: pod, Network: r.Network, NetnsPath: r.NetnsPath, External: true,
	}
	before := s.known(&wanted)
	list, err := s.cfg.Manager.Establish(ctx, wanted)
	if err != nil {
		return nil, translate(err)
	}
	interfaces := s.interfaces(records(list))
	if refusal := checkDesired(r.Desired, interfaces); refusal != nil {
		if !before {
			err = s.cfg.Manager.RemoveExternal(ctx, wanted.Key)
		}
		return nil, errors.Join(refusal, err)
	}
	return interfaces, nil
}

// known reports whether a request has its attachments already. One without a namespace then
// means the namespace that was named before: not every client names it.
func (s *Service) known(r *attachment.Request) bool {
	for _, rec := range s.records(r.ContainerID) {
		if rec.RequestKey() == r.Key {
			r.NetnsPath = cmp.Or(r.NetnsPath, rec.NetnsPath)
			return true
		}
	}
	return false
}

// records returns the records of a container, or all for "".
func (s *Service) records(containerID string) []journal.Record {
	if containerID == "" {
		return s.cfg.Journal.Records()
	}
	return s.cfg.Journal.OfContainer(containerID)
}

func records(list []attachment.Attached) []journal.Record {
	var all []journal.Record
	for _, one := range list {
		all = append(all, one.Record)
	}
	return all
}

// find returns the pod as the request names it, with the UID of the API where it names none.
func (s *Service) find(asked rest.Pod) (pod journal.Pod, err error) {
	s.cfg.Store.View(func(tx store.ReadTx) {
		row := store.PodByName(tx, asked.Namespace, asked.Name)
		switch {
		case row == nil && store.HostPodByName(tx, asked.Namespace, asked.Name) != nil:
			err = &rest.Failure{
				Code:   wire.InvalidRequest,
				Reason: fmt.Sprintf("pod %s/%s is on the network of its node, and gets no addresses", asked.Namespace, asked.Name),
			}
		case row == nil || asked.UID != "" && row.UID != asked.UID && row.StaticUID != asked.UID:
			err = &rest.NotReady{
				Reason: fmt.Sprintf(
					"this node has not heard of pod %s/%s yet; if that lasts, its alioth-cnid can't reach the API server",
					asked.Namespace,
					asked.Name,
				),
			}
		default:
			pod = journal.Pod{Namespace: row.Namespace, Name: row.Name, UID: cmp.Or(asked.UID, row.UID)}
		}
	})
	return pod, err
}

// translate returns an error as rest.Service has it.
func translate(err error) error {
	var notReady *attachment.NotReady
	code := wire.FailedToAllocateIPConfig
	switch {
	case errors.As(err, &notReady):
		return &rest.NotReady{Reason: notReady.Reason}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, attachment.ErrPodGone):
		code = wire.NotFound
	case errors.Is(err, attachment.ErrCaller), errors.Is(err, attachment.ErrAttached):
		code = wire.InvalidRequest
	case errors.Is(err, netns.ErrGone):
		code = wire.InvalidParameter
	case errors.Is(err, attachment.ErrNamespaceAlive):
		code = wire.InconsistentIPConfigState
	case errors.Is(err, nic.ErrInUse), errors.Is(err, nic.ErrNotOffered):
		code = wire.FailedToAllocateBackendConfig
	}
	return &rest.Failure{Code: code, Reason: err.Error()}
}

// checkDesired refuses a pod that does not have the addresses that its client wants.
func checkDesired(desired []netip.Addr, interfaces []answer.Interface) error {
	var held []netip.Addr
	for _, one := range interfaces {
		for _, address := range one.Addresses {
			held = append(held, address.Prefix.Addr())
		}
	}
	for _, ip := range desired {
		if !slices.Contains(held, ip) {
			return &rest.Failure{
				Code:   wire.AddressUnavailable,
				Reason: fmt.Sprintf("the pod has the addresses %v, and not %s", held, ip),
			}
		}
	}
	return nil
}

// interfaces describes the attachments of one request, the requested one first.
func (s *Service) interfaces(list []journal.Record) []answer.Interface {
	var all []answer.Interface
	s.cfg.Store.View(func(tx store.ReadTx) {
		for _, rec := range list {
			all = append(all, describe(tx, rec))
		}
	})
	return all
}

func describe(tx store.ReadTx, rec journal.Record) answer.Interface {
	one := answer.Interface{Name: rec.IfName, NIC: wire.InfraNIC}
	if rec.Mode == ifdriver.ModeDevice {
		one.NIC, one.MAC = wire.FrontendNIC, rec.MAC.String()
	}
	for i, prefix := range rec.Addrs {
		address := answer.Address{Prefix: prefix}
		if i < len(rec.Gateways) {
			address.Gateway = rec.Gateways[i]
		}
		if row := store.AddressByIP(tx, rec.VPC, prefix.Addr()); row != nil {
			address.ID = row.UID
		}
		one.Addresses = append(one.Addresses, address)
	}
	if len(one.Addresses) > 0 {
		one.ID = one.Addresses[0].ID
	}
	return one
}

// Release implements rest.Service. It ends the running requests that the key names first, and
// removes the attachments that they may have made.
func (s *Service) Release(ctx context.Context, key rest.Key) error {
	wanted := map[journal.Key]bool{}
	for _, ended := range s.running.end(key) {
		wanted[journal.Key{ContainerID: ended.ContainerID, IfName: ended.IfName}] = true
	}
	if key.ContainerID != "" && key.IfName != "" {
		wanted[journal.Key{ContainerID: key.ContainerID, IfName: key.IfName}] = true
	}
	for _, rec := range s.records(key.ContainerID) {
		request := rec.RequestKey()
		if rec.External &&
			names(key, rest.Key{ContainerID: request.ContainerID, IfName: request.IfName, PodInterfaceID: rec.ClientID}) {
			wanted[request] = true
		}
	}
	var errs []error
	for one := range wanted {
		errs = append(errs, s.cfg.Manager.RemoveExternal(ctx, one))
	}
	var notReady *attachment.NotReady
	err := errors.Join(errs...)
	if errors.As(err, &notReady) {
		return &rest.NotReady{Reason: notReady.Reason}
	}
	return err
}

// names reports whether a release means an attachment. A rebuilt attachment has lost its client's
// name for it, and not every client gives a name: then the container is enough.
func names(key, attachment rest.Key) bool {
	if attachment.PodInterfaceID == "" && key.ContainerID != "" {
		key.PodInterfaceID = ""
	}
	return key.Names(attachment)
}

// Collect implements rest.Service.
func (s *Service) Collect(ctx context.Context, network string, valid []rest.Key) error {
	keep := map[journal.Key]bool{}
	for _, key := range valid {
		keep[journal.Key{ContainerID: key.ContainerID, IfName: key.IfName}] = true
	}
	return s.cfg.Manager.GC(ctx, network, keep)
}

// Ready implements rest.Service.
func (s *Service) Ready(context.Context) error { return s.cfg.Manager.Ready() }

// Attachments implements rest.Service.
func (s *Service) Attachments(_ context.Context, containerID string) ([]rest.Attachment, error) {
	var all []rest.Attachment
	for _, group := range s.byRequest(containerID) {
		first := group.records[0]
		key := first.RequestKey()
		all = append(all, rest.Attachment{
			Key: rest.Key{ContainerID: key.ContainerID, IfName: key.IfName, PodInterfaceID: first.ClientID},
			Pod: rest.Pod(first.Pod), State: group.state, Since: first.Begun, Interfaces: s.interfaces(group.records),
		})
	}
	return all, nil
}

// group has the records of one request.
type group struct {
	state   wire.IPState
	records []journal.Record
}

// byRequest returns the records of a container, or of all for "", by their request, those
// that are being released last.
func (s *Service) byRequest(containerID string) []*group {
	var all []*group
	add := func(list []journal.Record, stateOf func(journal.Record) wire.IPState) {
		found := map[journal.Key]*group{}
		for _, rec := range list {
			if !rec.External || containerID != "" && rec.ContainerID != containerID {
				continue
			}
			of := found[rec.RequestKey()]
			if of == nil {
				of = &group{state: stateOf(rec)}
				found[rec.RequestKey()] = of
				all = append(all, of)
			}
			of.records = append(of.records, rec)
		}
	}
	add(s.records(containerID), stateOf)
	add(s.cfg.Journal.Releases(), func(journal.Record) wire.IPState { return wire.PendingRelease })
	return all
}

func stateOf(rec journal.Record) wire.IPState {
	switch rec.Phase {
	case journal.PhaseDone:
		return wire.Assigned
	case journal.PhaseLeaving:
		return wire.PendingRelease
	case journal.PhaseIntended:
	}
	return wire.PendingProgramming
}
