// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func getCommand() *cobra.Command {
	var timeout time.Duration
	var socket string
	var insecure bool
	command := &cobra.Command{
		Use:   "get URL",
		Short: "Print what an HTTP server answers",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) (err error) {
			ctx, cancel := within(command.Context(), timeout)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], http.NoBody)
			if err != nil {
				return fmt.Errorf("get %s: %w", args[0], err)
			}
			response, err := clientAt(socket, insecure).Do(request)
			if err != nil {
				return fmt.Errorf("get %s: %w", args[0], err)
			}
			defer func() { err = errors.Join(err, response.Body.Close()) }()
			if _, err := io.Copy(command.OutOrStdout(), response.Body); err != nil {
				return fmt.Errorf("get %s: %w", args[0], err)
			}
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("get %s: %s", args[0], response.Status)
			}
			return nil
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait")
	command.Flags().StringVar(&socket, "socket", "", "unix socket of the server, whatever the host in the URL is")
	command.Flags().BoolVar(&insecure, "insecure", false, "accept any certificate of the server")
	return command
}

// clientAt returns a client of the server at a unix socket. For "" it returns a client of the
// servers in the URLs.
func clientAt(socket string, insecure bool) *http.Client {
	if socket == "" {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure}}}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial}}
}
