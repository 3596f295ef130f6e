// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netns"
)

// add attaches a pod. A repeated ADD for an attachment that is intact gets the
// same answer again.
func (s *Server) add(ctx context.Context, c command) (json.RawMessage, error) {
	unlock, err := s.lock(ctx, c.key.ContainerID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec, link, err := s.known(ctx, c)
	if errors.Is(err, journal.ErrNotFound) {
		rec, link, err = s.create(ctx, c)
	} else if err == nil {
		err = s.program(ctx, rec)
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", c.pod, err)
	}
	s.cfg.Log.Info("pod attached", "pod", c.pod.String(), "containerID", c.key.ContainerID, "ifName", c.key.IfName)
	return result(c, rec, link)
}

// known returns the attachment as it was made before, or journal.ErrNotFound.
// What is left of one that is not as it was made, it removes.
func (s *Server) known(ctx context.Context, c command) (journal.Record, attach.Link, error) {
	rec, err := s.cfg.Journal.Get(c.key)
	if err != nil {
		return journal.Record{}, attach.Link{}, err
	}
	if err := refuseSecondNamespace(rec, c); err != nil {
		return journal.Record{}, attach.Link{}, err
	}
	if rec.Pod == c.pod && rec.NetnsPath == c.netns {
		link, err := s.intact(ctx, rec)
		if err == nil {
			return rec, link, nil
		}
		s.cfg.Log.Warn("attachment is not intact; making it anew", "pod", c.pod.String(), "containerID", c.key.ContainerID, "error", err)
	}
	if err := s.remove(ctx, rec); err != nil {
		return journal.Record{}, attach.Link{}, fmt.Errorf("remove remains of an earlier attempt: %w", err)
	}
	return journal.Record{}, attach.Link{}, journal.ErrNotFound
}

// refuseSecondNamespace keeps an ADD from moving an attachment whose network
// namespace is alive: a container has one, so the runtime means two containers
// by one ID. A namespace that ended is no obstacle.
func refuseSecondNamespace(rec journal.Record, c command) error {
	if rec.Phase != journal.PhaseDone || rec.NetnsPath == c.netns {
		return nil
	}
	first, err := netns.Identify(rec.NetnsPath)
	if err != nil || first.Cookie != rec.Device.NetnsCookie {
		return nil //nolint:nilerr // what isn't there, or is another's now, is no obstacle
	}
	return types.NewError(types.ErrInvalidNetNS, fmt.Sprintf("attachment %s is alive in network namespace %s; send a DEL before an ADD in %s",
		rec.Key, rec.NetnsPath, c.netns), "")
}

// intact compares an attachment with the kernel.
func (s *Server) intact(ctx context.Context, rec journal.Record) (attach.Link, error) {
	if rec.Phase != journal.PhaseDone {
		return attach.Link{}, fmt.Errorf("it came no further than phase %q", rec.Phase)
	}
	driver, err := s.cfg.Drivers.Of(rec.Kind)
	if err != nil {
		return attach.Link{}, err
	}
	link, err := driver.Check(ctx, specOf(rec))
	if err != nil {
		return attach.Link{}, err
	}
	if device(link) != rec.Device {
		return attach.Link{}, fmt.Errorf("%w: it is %+v, was made as %+v", attach.ErrMismatch, device(link), rec.Device)
	}
	return link, nil
}

// create waits for a decision and carries it out, or leaves nothing.
func (s *Server) create(ctx context.Context, c command) (journal.Record, attach.Link, error) {
	decision, err := s.await(ctx, c.pod)
	if err != nil {
		return journal.Record{}, attach.Link{}, err
	}
	defer s.cfg.Metrics.since(phaseTotal, time.Now())
	driver, err := s.cfg.Drivers.Of(decision.Kind)
	if err != nil {
		return journal.Record{}, attach.Link{}, err
	}
	rec, err := s.cfg.Journal.Begin(recordOf(c, decision, driver))
	if err != nil {
		return journal.Record{}, attach.Link{}, err
	}
	// Before the record was there, nothing kept the pod's addresses from being
	// released and given to another one, had it begun to leave meanwhile.
	if s.cfg.Decisions.Leaving(c.pod) {
		return journal.Record{}, attach.Link{}, s.rollback(ctx, rec, ErrPodGone)
	}
	done, link, err := s.establish(ctx, driver, rec)
	if err != nil {
		return journal.Record{}, attach.Link{}, s.rollback(ctx, rec, err)
	}
	return done, link, nil
}

// rollback removes what an ADD has done so far. When it can't, the record
// stays, for a DEL or Reconcile to try again.
func (s *Server) rollback(ctx context.Context, rec journal.Record, cause error) error {
	if err := s.remove(ctx, rec); err != nil {
		return fmt.Errorf("%w (and undoing it failed, a DEL will try again: %v)", cause, err) //nolint:errorlint // callers match the cause only
	}
	return cause
}

func (s *Server) await(ctx context.Context, pod journal.Pod) (Decision, error) {
	defer s.cfg.Metrics.since(phaseWait, time.Now())
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait)
	defer cancel()
	decision, err := s.cfg.Decisions.Await(ctx, pod)
	if errors.Is(err, context.DeadlineExceeded) {
		return Decision{}, &NotReady{Reason: fmt.Sprintf("no decision about this pod within %s", s.cfg.Wait)}
	}
	return decision, err
}

// establish takes a record from intended to done and programmed.
func (s *Server) establish(ctx context.Context, driver attach.Driver, rec journal.Record) (journal.Record, attach.Link, error) {
	start := time.Now()
	link, err := driver.Attach(ctx, specOf(rec))
	if err != nil {
		return rec, link, err
	}
	s.cfg.Metrics.since(phaseAttach, start)
	rec, err = s.cfg.Journal.Complete(rec.Key, device(link))
	if err != nil {
		return rec, link, err
	}
	return rec, link, s.program(ctx, rec)
}

func (s *Server) program(ctx context.Context, rec journal.Record) error {
	defer s.cfg.Metrics.since(phaseProgram, time.Now())
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ProgramWait)
	defer cancel()
	err := s.cfg.Datapath.Program(ctx, rec)
	var notReady *NotReady
	if err == nil || errors.As(err, &notReady) {
		return err
	}
	return &NotReady{Reason: "programming the datapath: " + err.Error()}
}

func recordOf(c command, d Decision, driver attach.Driver) journal.Record {
	return journal.Record{
		Identity:  journal.Identity{Key: c.key, Pod: c.pod, CNINetwork: c.conf.Name, NetnsPath: c.netns, Attachment: d.Attachment},
		Binding:   journal.Binding{VPC: d.VPC, VNI: d.VNI, Subnets: d.Subnets},
		Interface: journal.Interface{Kind: d.Kind, HostIfName: driver.HostName(c.key.ContainerID, c.key.IfName), Addrs: d.Addrs, Gateways: d.Gateways, MAC: d.MAC, MTU: d.MTU, AltName: d.AltName},
		Probed:    d.Probed, ProbeTimeout: d.ProbeTimeout, HostPorts: d.HostPorts,
	}
}

func specOf(rec journal.Record) attach.Spec {
	return attach.Spec{
		ContainerID: rec.ContainerID, IfName: rec.IfName, PodUID: rec.Pod.UID, Network: rec.CNINetwork,
		Description: rec.Pod.String(), NetnsPath: rec.NetnsPath,
		Addrs: rec.Addrs, Gateways: rec.Gateways, MAC: rec.MAC[:], MTU: rec.MTU, AltName: rec.AltName,
	}
}

func device(link attach.Link) journal.Device {
	return journal.Device{HostIfindex: link.HostIfindex, NetnsInode: link.NetnsInode, NetnsCookie: link.NetnsCookie}
}
