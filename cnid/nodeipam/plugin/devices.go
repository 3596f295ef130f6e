// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/plugin/nodenic"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// attach carries out an answer: it moves the delegated devices into the pod, and returns
// the result for the plugin that makes the interface.
func (c command) attach(ctx context.Context, entries []wire.PodIPInfo) (*types100.Result, error) {
	wanted, err := nodenic.Wanted(entries, c.IfName)
	if err != nil {
		return nil, types.NewError(cniapi.CodeFailed, err.Error(), "")
	}
	result, err := resultOf(entries, c.IfName)
	if err != nil {
		return nil, types.NewError(cniapi.CodeFailed, err.Error(), "")
	}
	if len(wanted) > 0 && c.conf.IsDefaultGateway {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf(
			"isDefaultGateway adds a default route by %s, but that of the pod is by its device %s: use isGateway instead",
			c.IfName,
			wanted[0].Name,
		), "")
	}
	return result, codedDevice(c.devices().Attach(ctx, nodenic.Attachment{
		ContainerID: c.ContainerID, IfName: c.IfName, Network: c.conf.Name, NetnsPath: c.Netns,
	}, wanted))
}

// abandon releases an attachment that can't be finished, because the runtime's DEL may take
// long to come, and returns why. The devices are back already.
func (c command) abandon(why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	released := c.release(ctx)
	var coded *types.Error
	if released != nil && errors.As(why, &coded) {
		return types.NewError(coded.Code, coded.Msg, "the addresses are not released: "+released.Error())
	}
	return why
}

func (c command) bringBack(ctx context.Context) error {
	return codedDevice(c.devices().Detach(ctx, c.ContainerID, c.IfName))
}

// checkDevices checks the devices of this command, and looks for the devices that the service
// knows.
func (c command) checkDevices(ctx context.Context, endpoint wire.EndpointInfo) error {
	var names []string
	for name, info := range endpoint.IfnameToIPMap {
		if info.NICType == wire.FrontendNIC {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return codedDevice(c.devices().Check(ctx, nodenic.Attachment{
		ContainerID: c.ContainerID, IfName: c.IfName, Network: c.conf.Name, NetnsPath: c.Netns,
	}, names))
}

// collectDevices brings back the devices of attachments that neither the runtime nor the service
// knows. The service keeps the devices of pods that are still there.
func (c command) collectDevices(ctx context.Context, valid []wire.ValidAttachment) error {
	return codedDevice(c.devices().Collect(ctx, c.conf.Name, func(containerID, ifName string) (bool, error) {
		if slices.Contains(valid, wire.ValidAttachment{ContainerID: containerID, Ifname: ifName}) {
			return false, nil
		}
		endpoint, err := c.Endpoint(ctx, containerID)
		var answered *client.Error
		if errors.As(err, &answered) && answered.Code == wire.NotFound {
			return true, nil
		}
		_, known := endpoint.IfnameToIPMap[ifName]
		return !known, err
	}))
}

func (c command) devices() nodenic.Devices {
	return nodenic.Devices{Dir: c.conf.IPAM.Devices}
}

// codedDevice returns a CNI error for one of the delegated devices; nil for nil.
func codedDevice(err error) error {
	switch {
	case err == nil:
		return nil
	case nodenic.Passes(err):
		return types.NewError(cniapi.CodeNotReady, wire.NotReadyPrefix+err.Error(), "")
	}
	return types.NewError(cniapi.CodeFailed, err.Error(), "")
}
