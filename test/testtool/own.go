// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// ownServer asks the server of the same pod.
func ownServer(ctx context.Context, method string, port uint16, path string) ([]byte, error) {
	url := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) + path
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask own server: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask own server: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read own server's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask own server: %s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

func seenCommand() *cobra.Command {
	var port uint16
	command := &cobra.Command{
		Use:   "seen",
		Short: "Print what the server of this pod got so far, oldest first, one JSON line for each message",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			body, err := ownServer(command.Context(), http.MethodGet, port, "/seen")
			if err != nil {
				return err
			}
			var messages []report.Seen
			if err := json.Unmarshal(body, &messages); err != nil {
				return fmt.Errorf("read own server's answer: %w", err)
			}
			for _, message := range messages {
				if err := printJSON(command.OutOrStdout(), message); err != nil {
					return err
				}
			}
			return nil
		},
	}
	command.Flags().Uint16Var(&port, "port", report.PortHTTP, "HTTP port of the server")
	return command
}

func healthCommand() *cobra.Command {
	var port uint16
	command := &cobra.Command{
		Use:   "health true|false",
		Short: "Tell the server of this pod what to answer to health checks",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ok, err := strconv.ParseBool(args[0])
			if err != nil {
				return fmt.Errorf("read health: %w", err)
			}
			_, err = ownServer(command.Context(), http.MethodPut, port, "/healthz?ok="+strconv.FormatBool(ok))
			return err
		},
	}
	command.Flags().Uint16Var(&port, "port", report.PortHTTP, "HTTP port of the server")
	return command
}
