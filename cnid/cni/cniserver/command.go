// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// command is a parsed Request.
type command struct {
	key   journal.Key
	netns string
	pod   journal.Pod
	conf  netConf
}

// netConf has the used fields of a network configuration (CNI 1.1, section
// "Plugin configuration objects").
type netConf struct {
	CNIVersion string          `json:"cniVersion"`
	Name       string          `json:"name"`
	PrevResult json.RawMessage `json:"prevResult"`
	// Valid lists, in a GC, the attachments to keep. Earlier runtimes use
	// ValidEarlier.
	Valid        []validAttachment `json:"cni.dev/valid-attachments"`
	ValidEarlier []validAttachment `json:"cni.dev/attachments"`
}

type validAttachment struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// parse checks the input of the command. The plugin binary has checked a part of it, but
// other programs may open the socket too.
func parse(req cniapi.Request) (command, error) {
	c := command{key: journal.Key{ContainerID: req.ContainerID, IfName: req.IfName}, netns: req.Netns}
	if err := json.Unmarshal(req.Config, &c.conf); err != nil {
		return c, types.NewError(types.ErrDecodingFailure, "decode network configuration", quote.Error(err).Error())
	}
	if err := checkTexts(req, c.conf); err != nil {
		return c, err
	}
	if !slices.Contains(cniapi.Versions(), c.conf.CNIVersion) {
		return c, types.NewError(types.ErrIncompatibleCNIVersion, fmt.Sprintf("cniVersion %s is not served, only %s",
			quote.Text(c.conf.CNIVersion), strings.Join(cniapi.Versions(), ", ")), "")
	}
	if req.Command == "STATUS" || req.Command == "GC" {
		return c, nil
	}
	if err := utils.ValidateContainerID(c.key.ContainerID); err != nil {
		return c, err
	}
	if err := utils.ValidateInterfaceName(c.key.IfName); err != nil {
		return c, err
	}
	if req.Command == "DEL" {
		// A DEL needs less than an ADD: only container and interface.
		return c, nil
	}
	if req.Netns == "" {
		return c, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_NETNS is missing", "")
	}
	pod, err := parsePod(req)
	c.pod = pod
	return c, err
}

// checkTexts refuses names that no message may repeat. The path of the network namespace is the
// runtime's, and may be long.
func checkTexts(req cniapi.Request, conf netConf) error {
	named := []struct{ what, text string }{
		{"CNI_COMMAND", req.Command},
		{"CNI_CONTAINERID", req.ContainerID},
		{"CNI_IFNAME", req.IfName},
		{"cniVersion of the network configuration", conf.CNIVersion},
		{"name of the network configuration", conf.Name},
	}
	for _, valid := range slices.Concat(conf.Valid, conf.ValidEarlier) {
		named = append(
			named,
			struct{ what, text string }{"containerID to keep", valid.ContainerID},
			struct{ what, text string }{"ifname to keep", valid.IfName},
		)
	}
	for _, one := range named {
		if !quote.IsShort(one.text) {
			return unfit(one.what, one.text)
		}
	}
	return nil
}

func unfit(what, text string) error {
	return types.NewError(
		types.ErrInvalidEnvironmentVariables,
		fmt.Sprintf(
			"%s has %d bytes: want at most %d, which can be printed: %s",
			what,
			len(text),
			quote.MaxQuoted,
			quote.Text(text),
		),
		"",
	)
}

// parsePod reads the pod from CNI_ARGS, as the runtimes of Kubernetes set it.
// The UID is needed because a name alone can be a later pod's.
func parsePod(req cniapi.Request) (journal.Pod, error) {
	args := map[string]string{}
	for pair := range strings.SplitSeq(req.Args, ";") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok && pair != "" {
			return journal.Pod{}, types.NewError(
				types.ErrInvalidEnvironmentVariables,
				fmt.Sprintf("CNI_ARGS has %s, want key=value", quote.Text(pair)),
				"",
			)
		}
		args[key] = value
	}
	pod := journal.Pod{Namespace: args["K8S_POD_NAMESPACE"], Name: args["K8S_POD_NAME"], UID: args["K8S_POD_UID"]}
	for _, key := range []string{"K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_UID"} {
		if args[key] == "" {
			return journal.Pod{}, types.NewError(
				types.ErrInvalidEnvironmentVariables,
				"CNI_ARGS has no "+key+"; a container runtime of Kubernetes sets it",
				"",
			)
		}
		if !quote.IsShort(args[key]) {
			return journal.Pod{}, unfit(key, args[key])
		}
	}
	if infra, ok := args["K8S_POD_INFRA_CONTAINER_ID"]; ok && infra != req.ContainerID {
		return journal.Pod{}, types.NewError(
			types.ErrInvalidEnvironmentVariables,
			fmt.Sprintf(
				"K8S_POD_INFRA_CONTAINER_ID is %s but CNI_CONTAINERID is %s",
				quote.Text(infra),
				quote.Text(req.ContainerID),
			),
			"",
		)
	}
	return pod, nil
}
