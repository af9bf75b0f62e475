# Prints, as one JSON object, the microseconds that the BEAM takes for what benches/otp.py measures.
defmodule Echo do
  use GenServer
  def init(n), do: {:ok, n}
  def handle_call(_, _, n), do: {:reply, n, n}
  def handle_cast(_, n), do: {:noreply, n + 1}
end

defmodule Bench do
  @count 10_000

  def best(fun), do: Enum.min(for(_ <- 1..9, do: elem(:timer.tc(fun), 0))) / @count

  def cast do
    {:ok, pid} = GenServer.start(Echo, 0)
    Enum.each(1..@count, fn _ -> GenServer.cast(pid, 1) end)
    GenServer.call(pid, 0)
  end

  def call do
    {:ok, pid} = GenServer.start(Echo, 0)
    Enum.each(1..@count, fn _ -> GenServer.call(pid, 0) end)
  end

  def ping_pong do
    other = spawn(fn -> pong() end)

    Enum.each(1..div(@count, 2), fn _ ->
      send(other, {self(), 1})
      receive do: (1 -> :ok)
    end)
  end

  defp pong do
    receive do
      {from, x} ->
        send(from, x)
        pong()
    end
  end

  def ring do
    first = Enum.reduce(1..99, self(), fn _, to -> spawn(fn -> member(to) end) end)

    Enum.each(1..div(@count, 100), fn _ ->
      send(first, 1)
      receive do: (1 -> :ok)
    end)
  end

  defp member(to) do
    receive do
      x ->
        send(to, x)
        member(to)
    end
  end

  def spawn_stop do
    me = self()
    chain(me, @count)
    receive do: (:done -> :ok)
  end

  defp chain(me, 0), do: send(me, :done)
  defp chain(me, n), do: spawn(fn -> chain(me, n - 1) end)

  def fan_out do
    me = self()

    pids = for _ <- 1..@count, do: spawn(fn -> receive do: (_ -> send(me, :ok)) end)
    {us, _} = :timer.tc(fn ->
      Enum.each(pids, &send(&1, 1))
      Enum.each(pids, fn _ -> receive do: (:ok -> :ok) end)
    end)
    us / @count
  end
end

figures = [
  {"cast", Bench.best(&Bench.cast/0)},
  {"call", Bench.best(&Bench.call/0)},
  {"ping-pong, one hop", Bench.best(&Bench.ping_pong/0)},
  {"ring of 100, one hop", Bench.best(&Bench.ring/0)},
  {"spawn + stop, one after the other", Bench.best(&Bench.spawn_stop/0)},
  {"fan-out to 1000, one delivery", Enum.min(for(_ <- 1..9, do: Bench.fan_out()))}
]

IO.puts(["{", Enum.map_join(figures, ", ", fn {name, us} -> "\"#{name}\": #{us}" end), "}"])
