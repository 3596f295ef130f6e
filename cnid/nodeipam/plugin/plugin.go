// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin is the part of the IPAM plugin alioth-ipam that asks the node IPAM API: for
// network configurations without addresses, which people write for bridge, macvlan, ipvlan
// and others.
package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

const (
	// patience is longer than the patience of the service (rest.SocketPatience).
	patience = 40 * time.Second
	// statusPatience limits STATUS, because a runtime waits for it when it reports the
	// node's condition.
	statusPatience = 800 * time.Millisecond
)

// command is a parsed command.
type command struct {
	*skel.CmdArgs
	conf netConf
	client.Client
}

type netConf struct {
	CNIVersion string          `json:"cniVersion"`
	Name       string          `json:"name"`
	IPAM       ipamconf.Config `json:"ipam"`
	PrevResult json.RawMessage `json:"prevResult"`
	// IsDefaultGateway is an option of the plugin bridge, which adds a default route of its
	// own to every result.
	IsDefaultGateway bool `json:"isDefaultGateway"`
	// Valid lists, in a GC, the attachments to keep. Earlier runtimes use ValidEarlier.
	Valid        []wire.ValidAttachment `json:"cni.dev/valid-attachments"`
	ValidEarlier []wire.ValidAttachment `json:"cni.dev/attachments"`
}

func parse(args *skel.CmdArgs) (command, error) {
	c := command{CmdArgs: args}
	if err := json.Unmarshal(args.StdinData, &c.conf); err != nil {
		return c, types.NewError(types.ErrDecodingFailure, "decode network configuration", err.Error())
	}
	if c.conf.CNIVersion == "" {
		c.conf.CNIVersion = "0.1.0"
	}
	c.Socket = c.conf.IPAM.Socket
	if c.Socket == "" {
		c.Socket = client.DefaultSocket
	}
	return c, nil
}

// Add attaches the pod, and prints the addresses of the interface.
func Add(args *skel.CmdArgs) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	request, err := c.request()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	entries, err := c.Request(ctx, request)
	if err != nil {
		return coded(err)
	}
	result, err := c.attach(ctx, entries)
	if err != nil {
		return c.abandon(err)
	}
	return types.PrintResult(result, c.conf.CNIVersion)
}

// Check compares the addresses of the interface with the previous result, and looks at the
// delegated devices.
func Check(args *skel.CmdArgs) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	endpoint, err := c.Endpoint(ctx, args.ContainerID)
	if err != nil {
		return coded(err)
	}
	if err := c.checkAddresses(endpoint); err != nil {
		return err
	}
	return c.checkDevices(ctx, endpoint)
}

// checkAddresses compares the addresses that the service has with the previous result.
func (c command) checkAddresses(endpoint wire.EndpointInfo) error {
	info, ok := endpoint.IfnameToIPMap[c.IfName]
	if !ok {
		return types.NewError(cniapi.CodeFailed, fmt.Sprintf("interface %s of the container has no address", c.IfName), "")
	}
	var want []netip.Prefix
	for _, one := range append(info.IPv4, info.IPv6...) {
		addr, err := netip.ParseAddr(one.IP)
		if err != nil {
			return types.NewError(types.ErrDecodingFailure, "decode the service's answer", err.Error())
		}
		bits, _ := net.IPMask(one.Mask).Size()
		want = append(want, netip.PrefixFrom(addr, bits))
	}
	return Lacking(c.conf.CNIVersion, c.conf.PrevResult, want)
}

// Del brings the delegated devices back, and releases the addresses. The former is first,
// because the service may give a released device to another pod.
func Del(args *skel.CmdArgs) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.bringBack(ctx); err != nil {
		return err
	}
	return c.release(ctx)
}

// release releases the addresses. If the service does not answer, it leaves the release to
// the service's next start, and succeeds: a failed DEL keeps pods Terminating.
func (c command) release(ctx context.Context) error {
	err := c.Release(ctx, wire.IPConfigsRequest{
		PodInterfaceID: c.podInterfaceID(), InfraContainerID: c.ContainerID, Ifname: c.IfName, NetworkName: c.conf.Name,
	})
	var away *client.UnreachableError
	var answered *client.Error
	switch {
	case errors.As(err, &answered) && answered.Code == wire.InvalidParameter:
		return nil // the service refuses such names, so nothing was attached
	case !errors.As(err, &away):
		return coded(err)
	}
	dir := c.conf.IPAM.Queue
	if dir == "" {
		dir = queue.DefaultDir
	}
	release := queue.Release{ContainerID: c.ContainerID, IfName: c.IfName, PodInterfaceID: c.podInterfaceID()}
	if queued := queue.Put(dir, release); queued != nil {
		return coded(&client.UnreachableError{Socket: away.Socket, Cause: errors.Join(away.Cause, queued)})
	}
	return nil
}

// GC releases attachments that the runtime has forgotten, and brings back their devices.
func GC(args *skel.CmdArgs) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	valid := append(c.conf.Valid, c.conf.ValidEarlier...)
	if err := c.Collect(ctx, wire.CollectRequest{NetworkName: c.conf.Name, Valid: valid}); err != nil {
		return coded(err)
	}
	return c.collectDevices(ctx, valid)
}

// Status fails if no pod can be attached. While the daemon restarts, its last answer counts.
func Status(args *skel.CmdArgs) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusPatience)
	defer cancel()
	err = c.Ready(ctx)
	var away *client.UnreachableError
	if errors.As(err, &away) {
		err = cniapi.LastState(c.Socket, away)
	}
	if err != nil {
		return types.NewError(cniapi.CodeUnavailable, err.Error(), "")
	}
	return nil
}

// request names the pod by the values that runtimes of Kubernetes set in CNI_ARGS.
func (c command) request() (wire.IPConfigsRequest, error) {
	args := map[string]string{}
	for pair := range strings.SplitSeq(c.Args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		args[key] = value
	}
	pod := wire.OrchestratorContext{
		PodName:      args["K8S_POD_NAME"],
		PodNamespace: args["K8S_POD_NAMESPACE"],
		PodUID:       args["K8S_POD_UID"],
	}
	if pod.PodName == "" || pod.PodNamespace == "" {
		return wire.IPConfigsRequest{}, types.NewError(types.ErrInvalidEnvironmentVariables,
			"CNI_ARGS has no K8S_POD_NAME and K8S_POD_NAMESPACE; a container runtime of Kubernetes sets them", "")
	}
	who, err := json.Marshal(pod)
	return wire.IPConfigsRequest{
		PodInterfaceID: c.podInterfaceID(), InfraContainerID: c.ContainerID, OrchestratorContext: who, Ifname: c.IfName,
		NetworkName: c.conf.Name, NetnsPath: c.Netns,
	}, err
}

func (c command) podInterfaceID() string { return c.ContainerID + "-" + c.IfName }

// coded returns a CNI error for one of the client's; nil for nil.
func coded(err error) error {
	var answered *client.Error
	var away *client.UnreachableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &away):
		return types.NewError(cniapi.CodeNotReady, wire.NotReadyPrefix+away.Error(), "")
	case errors.As(err, &answered) && answered.Passes():
		return types.NewError(cniapi.CodeNotReady, answered.Message, "")
	case errors.As(err, &answered):
		return types.NewError(cniapi.CodeFailed, answered.Message, answered.Code.String())
	}
	return types.NewError(cniapi.CodeFailed, err.Error(), "")
}
